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

// Everything that a chief decides: a TrainingSession, the calls that wait at the chief, what a
// command's answer or its absence means, what the recorder's results mean, and when the chief has
// finished. It has no thread, lock, socket, file or clock: Chief drives it in a process, a
// simulator may drive it instead. One thread at a time. `now` comes from one clock and never goes
// back.
//
// The time between two calls that is longer than any driver lets pass is a pause: the process was
// stopped or its machine suspended, while all messages waited in sockets. For the session that time
// has not passed, and every task gets its lease again before anything else happens.
//
// After every call that is not const the driver sends TakeCommands, writes down TakeRecords, and
// polls the parked calls again.
class ChiefLogic {
 public:
  struct Options {
    TrainingSession::Options session;
    bool secure = false;  // The clients to the ps have certificates; for messages.
    absl::Duration tick = absl::Milliseconds(50);
  };

  explicit ChiefLogic(Options options);
  ChiefLogic(const ChiefLogic&) = delete;
  ChiefLogic& operator=(const ChiefLogic&) = delete;

  // --- Calls that may wait at the chief. A call is made when it arrives and polled at once, after
  // every change of the logic, and at wake(). Poll answers nothing while the call waits on, and is
  // not called again after it has answered. The request is borrowed.

  // RegisterTask: waits for a place that another process holds, for less time than its caller
  // waits.
  class Registration {
   public:
    // `is_gone`: the caller waits no more; it must not get the place.
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
    absl::Status taken_;                // The first answer.
    std::optional<absl::Time> holder_;  // The time of the holder's last call then.
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

  // ReportNorms: waits for the norms of the other ps.
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
  // Work that the driver does elsewhere: the run is not over before it is done. `status` is the
  // recorder's; ABORTED: another chief has taken the run over.
  void BeginWork() { ++work_under_way_; }
  void EndWork(const absl::Status& status);
  void OnRecorded(const absl::Status& status);
  // True: the run rests on the checkpoint now, and older ones may be removed.
  bool OnManifestWritten(absl::Time now, const ManifestToWrite& write, const absl::Status& status);
  void OnExported(absl::Time now, const ModelExport& made, const absl::Status& status);

  // Leases, waits and their deadlines. Call it at least a few times a second.
  void Tick(absl::Time now);
  // Call it after Tick with whether TakeRecords had anything: records have to be written first.
  void LookForEnd(absl::Time now, bool has_records);

  // --- The end.
  // Answers all parked calls from now on.
  void Close() { closing_ = true; }
  bool closing() const { return closing_; }
  bool is_over() const;
  // The run is over, everything is written down, and every ps knows, or some seconds have passed.
  bool drained() const { return drained_; }
  // OK: trained to the end. CANCELLED: stopped on request. Otherwise why it failed.
  absl::Status result() const;
  bool all_told() const;
  // See Chief::CloseRegistration.
  bool CloseRegistration(bool if_all_told);

  const TrainingSession& session() const { return session_; }

 private:
  void FenceIfAborted(const absl::Status& status);
  // The session's time.
  absl::Time At(absl::Time now);

  const Options options_;
  const absl::Duration longest_gap_;
  TrainingSession session_;
  absl::Time last_call_ = absl::InfiniteFuture();
  absl::Duration stood_still_;  // in all
  bool closing_ = false;
  bool drained_ = false;
  int work_under_way_ = 0;
  absl::Time over_since_ = absl::InfiniteFuture();
  bool registration_closed_ = false;
  std::set<uint32_t> told_;  // Workers that have received the end.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_CHIEF_LOGIC_H_
