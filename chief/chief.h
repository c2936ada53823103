#ifndef SHOAL_CHIEF_CHIEF_H_
#define SHOAL_CHIEF_CHIEF_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "chief/chief_logic.h"
#include "runtime/rpc/parameter_client.h"

namespace shoal {

// Writes the records of a session. One thread writes lines, and another one writes checkpoints and
// terms, because these may take seconds; each thread writes in order. ABORTED means that another
// chief has taken the run over and nothing was written.
class SessionRecorder {
 public:
  virtual ~SessionRecorder() = default;

  // Called by the thread that writes lines.
  virtual void Record(const StepLine& line) = 0;
  virtual absl::Status Record(const RolledBack& rolled_back) = 0;
  virtual void Record(const TrainingStarts& starts) = 0;
  // Writes the lines that could not be written before, if that is possible now. Called before a
  // checkpoint is published, so that a chief that is lost afterwards leaves the lines of its steps.
  virtual void WriteWaitingLines() = 0;

  // Called by the thread that writes checkpoints.
  virtual absl::Status Publish(const ManifestToWrite& manifest) = 0;
  virtual absl::Status Export(const ModelExport& wanted) = 0;
  // The session will resume from the manifest that was published last, so older checkpoints may be
  // removed.
  virtual void OnCheckpointAccepted() = 0;
  // Removes the files of a checkpoint that could not be completed.
  virtual absl::Status OnCheckpointFailed(const CutGivenUp& cut) = 0;
  // Removes the checkpoints of later steps, which are void.
  virtual absl::Status DiscardAbove(uint64_t step) = 0;

  // Receives a note of the log. Notes do not wait for records: lines of earlier steps may be
  // written after this call.
  virtual void OnNote(const SessionNote& /*note*/) {}

  // Warns that the program of a worker gave other initial values than those in use. Called by the
  // thread that writes checkpoints, because it reads the files of both sets of values.
  virtual void Record(const InitialValuesDiffer& /*differ*/) {}

  // Returns ABORTED if another chief has taken the run over.
  virtual absl::Status CheckTerm() { return absl::OkStatus(); }

  // Adds what only the recorder knows: rates, and when the last checkpoint was made. Any thread may
  // call it.
  virtual void Describe(v1::GetRunStatusResponse* /*run*/) const {}
};

// A ChiefLogic with threads: a driver, which lets time pass for the logic and writes the lines of
// metrics.jsonl, a publisher, which writes checkpoints, and one thread for each ps, which sends it
// commands. A call that has to wait holds its caller's thread. Thread-safe.
class Chief {
 public:
  struct Options {
    TrainingSession::Options session;
    const Clock* clock = nullptr;         // Borrowed.
    SessionRecorder* recorder = nullptr;  // Borrowed.
    // Makes a client of the ps that serves at `address`. Called by the thread of this ps.
    std::function<std::unique_ptr<ParameterClient>(uint32_t ps, const std::string& address)>
        connect;
    bool secure = false;  // True if these clients have certificates; for error texts.
    absl::Duration tick = absl::Milliseconds(50);
  };

  explicit Chief(Options options);
  // Joins its threads. Commands to ps tasks that are under way end with their client's Close: over
  // gRPC at once, in this process when the ps has done them.
  ~Chief();
  Chief(const Chief&) = delete;
  Chief& operator=(const Chief&) = delete;

  // Waits until the run is over, everything is written and every ps has acknowledged the end, or
  // some seconds have passed since the end. Returns OK if the run was trained to its end, CANCELLED
  // if it was stopped on request after a checkpoint, otherwise the reason of its failure.
  absl::Status Wait();

  // Returns whether every worker of the run and every live ps has received the end of the run, also
  // those that registered after it.
  bool all_notified() const;
  // Refuses all later registrations with UNAVAILABLE; such a task finds the end of the run in the
  // run's directory. If `if_all_notified` is true and all_notified() is false, changes nothing and
  // returns false.
  bool CloseRegistration(bool if_all_notified);

  // The result of the run, after Wait.
  struct Outcome {
    uint64_t steps = 0;
    std::string checkpoint;  // Directory name; empty if there is none.
    uint64_t checkpoint_step = 0;
    // The reason why no checkpoint could be made after it; empty: none has failed since.
    std::string checkpoint_failure;
    std::optional<EvaluationSums> test;  // The test split's, evaluated at the last step.
    uint32_t epochs = 0;
    bool classifies = false;
    std::vector<std::string> metric_names;
    uint64_t skipped_batches = 0;  // in the whole run
  };
  Outcome outcome() const;

  // The calls of proto/v1/chief_service.proto. GrpcChiefService calls these functions when a
  // request arrives. RegisterFor is RegisterTask for a caller that may disconnect: the call may
  // wait for a place to become free, and it registers no task, and returns CANCELLED, once
  // `is_gone` returns true. `is_gone` is called often, with locks held.
  absl::Status RegisterFor(const std::function<bool()>& is_gone,
                           const v1::RegisterTaskRequest& request,
                           v1::RegisterTaskResponse* response);
  absl::Status Heartbeat(const v1::HeartbeatRequest& request, v1::HeartbeatResponse* response);
  absl::Status ReportSteps(const v1::ReportStepsRequest& request,
                           v1::ReportStepsResponse* response);
  absl::Status ReportShard(const v1::ReportShardRequest& request,
                           v1::ReportShardResponse* response);
  absl::Status ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                v1::ReportEvaluationResponse* response);
  absl::Status ReportBadBatch(const v1::ReportBadBatchRequest& request,
                              v1::ReportBadBatchResponse* response);
  absl::Status LeaseBatches(const v1::LeaseBatchesRequest& request,
                            v1::LeaseBatchesResponse* response);
  absl::Status ReportNorms(const v1::ReportNormsRequest& request,
                           v1::ReportNormsResponse* response);
  absl::Status RequestStop(const v1::RequestStopRequest& request,
                           v1::RequestStopResponse* response);
  absl::Status GetRunStatus(const v1::GetRunStatusRequest& request,
                            v1::GetRunStatusResponse* response);
  // The connection of a member has broken. The member may be dead, or may reconnect.
  void OnDisconnect(const v1::Identity& member);

 private:
  // The thread of one ps. Sends it its commands, in order, one at a time.
  class PsLine;
  // Writes one record, or hands it to the publisher.
  class RecordWriter;

  // Waits as long as a call of the logic does.
  template <typename Call, typename Response>
  absl::Status Await(Call* call, Response* response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes the driver's thread, so that it looks at the session at once.
  void Poke() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Wakes all waiting calls as well, so that they look at the state again.
  void PokeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drive();
  void DispatchCommands() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the records, and keeps those that have to wait until the publisher has removed void
  // checkpoints.
  void RecordAll(std::vector<SessionRecord> records);
  void GiveUpOnPublisher(const CutGivenUp& given_up);
  void DiscardOnPublisher(const CheckpointsVoid& discard);
  // Runs `work` without the lock on the publisher's thread, after the work that it got before.
  void OnPublisher(std::function<absl::Status()> work);
  absl::Status PublishNow(const ManifestToWrite& write);
  absl::Status ExportNow(const ModelExport& wanted);
  void Deliver(const PsCommand& command, ParameterClient* client);

  const Options options_;
  mutable Mutex mutex_;
  CondVar changed_;  // notified when the run's state or a norm changes, and at the end
  ChiefLogic logic_ ABSL_GUARDED_BY(mutex_);
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  // The number of given-up cuts whose removal waits for the publisher.
  size_t num_given_up_ ABSL_GUARDED_BY(mutex_) = 0;
  // Void checkpoints are being removed: records wait until that is done.
  bool discarding_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<SessionRecord> records_;  // Records that the driver has not written yet.
  CondVar poke_;
  std::vector<std::unique_ptr<PsLine>> lines_;
  SerialExecutor publisher_;
  std::thread driver_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_CHIEF_H_
