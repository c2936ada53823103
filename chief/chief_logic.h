#ifndef SHOAL_CHIEF_CHIEF_LOGIC_H_
#define SHOAL_CHIEF_CHIEF_LOGIC_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "chief/session/training_session.h"

namespace shoal {

// Makes all decisions of a chief. It has a TrainingSession and the calls that wait at the chief. It
// decides what to do when a command is answered or fails, when the recorder has written a record,
// and when the chief has finished. It has no thread, lock, socket, file or clock: Chief drives it
// in a process, and a test may drive it instead. Not thread-safe. `now` comes from one clock and
// never goes back.
//
// A driver calls Tick often. If much more time passes between two calls, the process was stopped or
// its machine suspended, and messages have waited in sockets meanwhile. The session's clock leaves
// such a pause out, and every task gets a whole lease before anything else happens.
//
// After every call that is not const the driver sends TakeCommands, writes down TakeRecords, and
// polls the parked calls again.
class ChiefLogic {
 public:
  struct Options {
    TrainingSession::Options session;
    bool secure = false;  // True if the clients of the ps have certificates; for error texts.
    absl::Duration tick = absl::Milliseconds(50);
  };

  explicit ChiefLogic(Options options);
  ChiefLogic(const ChiefLogic&) = delete;
  ChiefLogic& operator=(const ChiefLogic&) = delete;

  // --- Calls that may wait at the chief. A call is made when it arrives and polled at once, after
  // every change of the logic, and at wake(). Poll returns nullopt while the call must still wait;
  // after it has returned an answer, it must not be called again. The request is borrowed.

  // RegisterTask: waits for a place that another process holds, for less time than its caller
  // waits.
  class Registration {
   public:
    // `is_gone` returns whether the caller has disconnected, so that it must not get the place.
    Registration(ChiefLogic* logic, const v1::RegisterTaskRequest& request,
                 std::function<bool()> is_gone)
        : logic_(logic), request_(request), is_gone_(std::move(is_gone)) {}
    std::optional<absl::StatusOr<v1::RegisterTaskResponse>> Poll(absl::Time now);
    absl::Time wake() const { return wake_; }

   private:
    absl::StatusOr<v1::RegisterTaskResponse> Finish(
        absl::StatusOr<v1::RegisterTaskResponse> answer);

    ChiefLogic* const logic_;
    const v1::RegisterTaskRequest& request_;
    const std::function<bool()> is_gone_;
    bool has_asked_ = false;
    absl::Status taken_;  // The first answer: the place is taken by another process.
    // When that process last called the chief, as known at the first answer.
    std::optional<absl::Time> holder_;
    absl::Time until_;
    absl::Time wake_;
  };

  // Heartbeat: waits for a state that its sender does not know.
  class Heartbeat {
   public:
    Heartbeat(ChiefLogic* logic, const v1::HeartbeatRequest& request)
        : logic_(logic), request_(request) {}
    std::optional<absl::StatusOr<v1::HeartbeatResponse>> Poll(absl::Time now);
    absl::Time wake() const { return until_; }

   private:
    ChiefLogic* const logic_;
    const v1::HeartbeatRequest& request_;
    bool has_asked_ = false;
    absl::Time until_;
  };

  // ReportNorms: the last call of a ps for a step waits for the norms of the other ps.
  class NormsReport {
   public:
    NormsReport(ChiefLogic* logic, const v1::ReportNormsRequest& request)
        : logic_(logic), request_(request) {}
    std::optional<absl::StatusOr<v1::ReportNormsResponse>> Poll(absl::Time now);
    absl::Time wake() const { return until_; }

   private:
    ChiefLogic* const logic_;
    const v1::ReportNormsRequest& request_;
    bool has_asked_ = false;
    absl::Time until_;
  };

  // --- Calls that are answered at once: those of TrainingSession.
  absl::StatusOr<v1::ReportStepsResponse> ReportSteps(absl::Time now,
                                                      const v1::ReportStepsRequest& request);
  absl::StatusOr<v1::ReportShardResponse> ReportShard(absl::Time now,
                                                      const v1::ReportShardRequest& request);
  absl::Status ReportEvaluation(absl::Time now, const v1::ReportEvaluationRequest& request);
  absl::Status ReportBadBatch(absl::Time now, const v1::ReportBadBatchRequest& request);
  absl::StatusOr<v1::LeaseBatchesResponse> LeaseBatches(absl::Time now,
                                                        const v1::LeaseBatchesRequest& request);
  absl::StatusOr<uint64_t> RequestStop(absl::Time now, const v1::RequestStopRequest& request);
  void Disconnect(absl::Time now, const v1::Identity& identity);
  v1::GetRunStatusResponse Status(absl::Time now) const;

  // --- Commands to ps.
  std::vector<PsCommand> TakeCommands(absl::Time now);
  // The result of a command: the answer, or the error of the call.
  void OnAnswer(absl::Time now, const PsCommand& command, absl::StatusOr<PsResponse> answer);

  // --- Records and their results.
  std::vector<SessionRecord> TakeRecords() { return session_.TakeRecords(); }
  // Call these before and after work that the driver does on another thread; drained() stays false
  // until it has ended. `status` is the result of the recorder; ABORTED means that another chief
  // has taken the run over.
  void BeginWork() { ++work_under_way_; }
  void EndWork(const absl::Status& status);
  void OnRecorded(const absl::Status& status);
  // Returns true if the checkpoint is the newest durable one now, so that older ones may be
  // removed.
  bool OnManifestWritten(absl::Time now, const ManifestToWrite& write, const absl::Status& status);
  void OnExported(absl::Time now, const ModelExport& made, const absl::Status& status);

  // Checks leases, waits and their deadlines. Call it at least a few times a second.
  void Tick(absl::Time now);
  // Updates drained(). Call it after Tick; `has_records` is true if some records of TakeRecords are
  // not written yet.
  void LookForEnd(absl::Time now, bool has_records);

  // --- The end. From now on all waiting calls are answered at once.
  void Close() { closing_ = true; }
  bool closing() const { return closing_; }
  bool is_over() const;
  // Returns true once the run is over, all records are written, and every ps has acknowledged the
  // end (or some seconds have passed since then).
  bool drained() const { return drained_; }
  // Returns OK if the run was trained to its end, CANCELLED if it was stopped on request, otherwise
  // the reason of its failure.
  absl::Status result() const;
  bool all_notified() const;
  // See Chief::CloseRegistration.
  bool CloseRegistration(bool if_all_notified);

  const TrainingSession& session() const { return session_; }

 private:
  void FenceIfAborted(const absl::Status& status);
  // Returns whether the workers must not receive the end of the run yet: the code that their
  // compute programs run after the end may load the exported model.
  bool must_export_first() const;
  // Returns the time on the session's clock.
  absl::Time At(absl::Time now);

  const Options options_;
  const absl::Duration longest_gap_;
  TrainingSession session_;
  absl::Time last_call_ = absl::InfiniteFuture();
  absl::Duration stood_still_;  // all pauses together
  bool closing_ = false;
  bool drained_ = false;
  int work_under_way_ = 0;
  absl::Time over_since_ = absl::InfiniteFuture();
  bool registration_closed_ = false;
  std::set<uint32_t> notified_workers_;  // Workers that have received the end.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_CHIEF_LOGIC_H_
