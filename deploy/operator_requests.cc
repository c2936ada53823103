#include "deploy/operator_requests.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/summary.h"
#include "runtime/process/directory_outcome.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/refused_connection.h"
#include "runtime/rpc/run_state.h"
#include "runtime/transport/call_status.h"

namespace shoal {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(100);

void Pause(const Clock& clock) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  const absl::Time until = clock.Now() + kPoll;
  while (clock.WaitUntil(until, &mutex, &never)) {
  }
}

absl::Status Ask(const ChiefContact& control, v1::GetRunStatusResponse* run) {
  v1::GetRunStatusRequest request;
  request.set_protocol(kProtocolVersion);
  return control.chief->Call(&v1::ChiefService::Service::GetRunStatus, request, run);
}

DurableCheckpoint GetCheckpoint(const v1::GetRunStatusResponse& run) {
  if (run.last_checkpoint().empty()) return {};
  return {run.last_checkpoint_step(),
          absl::StrCat(run.run_directory(), "/checkpoints/", run.last_checkpoint())};
}

// Compares the directories, not the names: one of them may be a symbolic link.
bool IsSameDirectory(const std::string& a, const std::string& b) {
  struct stat of_a = {}, of_b = {};
  return a == b || (stat(a.c_str(), &of_a) == 0 && stat(b.c_str(), &of_b) == 0 &&
                    of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino);
}

// Another run may have taken the address since the directory's cluster.textproto was written.
absl::Status CheckDirectory(const ChiefContact& control, const v1::GetRunStatusResponse& run) {
  if (control.run_directory.empty() || IsSameDirectory(control.run_directory, run.run_directory()))
    return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: the run there is in %s, not in %s; that one is over, or its chief knows the directory "
      "by another path: then name the address",
      control.address, run.run_directory(), control.run_directory));
}

// The error if the chief ended, or another one took its address, before the request was fulfilled.
absl::Status Lost(const ChiefContact& control, absl::string_view what, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat(control.address, ": the chief was lost before it reported that ", what, ": ",
                   why, "; see its log and summary.json in the run's directory"));
}

absl::Status OutOfTime(const ChiefContact& control, const v1::GetRunStatusResponse& run,
                       absl::string_view what, const std::string& silence) {
  return absl::DeadlineExceededError(absl::StrFormat(
      "%s: %s within %s; the run is at step %d%s%s", control.address, what,
      absl::FormatDuration(control.timeout), run.step(),
      run.waits_for().empty() ? "" : absl::StrCat(" and waits for ", run.waits_for()),
      silence.empty() ? "" : absl::StrCat("; the chief ", silence)));
}

// Returns whether a chief that ends after this answer has fulfilled the request: only the tasks
// still had to end.
bool HasStopped(const v1::GetRunStatusResponse& run, uint64_t version) {
  return run.state().phase() == v1::RunState::PHASE_STOPPING && !run.last_checkpoint().empty() &&
         run.last_checkpoint_step() >= version;
}

// Returns whether `now` is of the process that gave the answer `before`. A chief that is started
// again keeps the run's id, but does not know the request.
bool IsSameChief(const v1::GetRunStatusResponse& before, const v1::GetRunStatusResponse& now) {
  return now.run_id() == before.run_id() && now.uptime_seconds() >= before.uptime_seconds();
}

// Returns how the run ended, if its directory is on this machine and says so.
std::optional<Summary> HowItEnded(const ChiefContact& control,
                                  const v1::GetRunStatusResponse& run) {
  const std::string& directory =
      control.run_directory.empty() ? run.run_directory() : control.run_directory;
  // A directory with this name may hold another run here than on the chief's machine.
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::StatusOr<std::string> run_id = ReadFile(*files, JoinPath(directory, "RUN_ID"));
  if (!run_id.ok() || *run_id != absl::StrCat(run.run_id(), "\n")) return std::nullopt;
  return SummaryIfOver(directory);
}

absl::StatusOr<DurableCheckpoint> CheckpointOf(const ChiefContact& control,
                                               const Summary& summary) {
  if (summary.status == "failed") {
    return absl::FailedPreconditionError(
        absl::StrCat(control.address, ": the run failed: ", summary.exit_reason));
  }
  DurableCheckpoint checkpoint;
  if (!summary.checkpoint.has_value()) return checkpoint;
  checkpoint.path = *summary.checkpoint;
  CheckpointName name;
  const size_t slash = checkpoint.path.rfind('/');
  if (CheckpointName::Parse(checkpoint.path.substr(slash + 1), &name)) checkpoint.step = name.step;
  return checkpoint;
}

absl::Status Explain(const absl::Status& status, const ChiefContact& control) {
  return ExplainCall(status, control.address, control.secure);
}

// Makes the calls of one request to a chief that has answered before. A call that gets no answer in
// time is repeated until the timeout: the chief may be stalled. A chief that has ended refuses or
// cancels calls, as does a network that breaks for a moment, so such calls are repeated for
// control.patience only.
class Attempts {
 public:
  explicit Attempts(const ChiefContact& control)
      : control_(control), end_(control.clock->Now() + control.timeout) {}

  // Returns the status of the last call. Its outcome is unknown if the chief is lost, the time is
  // up, or `is_decided` returns true.
  absl::Status Make(const std::function<absl::Status()>& call,
                    const std::function<bool()>& is_decided) {
    const absl::Time begin = control_.clock->Now();
    std::optional<absl::Time> refused_since;
    while (true) {
      const absl::Status status = call();
      silence_.clear();
      if (!IsOutcomeUnknown(status)) return status;
      const absl::Time now = control_.clock->Now();
      silence_ = absl::StrCat("has not answered for ",
                              absl::FormatDuration(absl::Trunc(now - begin, absl::Seconds(1))));
      if (ShortReason(status) == ShortReason(absl::DeadlineExceededError(""))) {
        refused_since.reset();
      } else {
        absl::StrAppend(&silence_, " (", ShortReason(status), ")");
        if (!refused_since.has_value()) refused_since = now;
      }
      // Another server has the address, or none accepts this side's certificate.
      const bool is_certain = !absl::IsUnavailable(Explain(status, control_));
      const bool is_lost =
          is_certain || (refused_since.has_value() && now - *refused_since >= control_.patience);
      if (is_lost || IsOutOfTime() || is_decided()) return status;
      Pause(*control_.clock);
    }
  }

  bool IsOutOfTime() const { return control_.clock->Now() >= end_; }
  // For how long the last call had no answer, "has not answered for 8s (connection refused)"; empty
  // if it had one.
  const std::string& silence() const { return silence_; }

 private:
  const ChiefContact& control_;
  const absl::Time end_;
  std::string silence_;
};

// Calls RequestStop, whose calls may be repeated.
absl::Status Request(const ChiefContact& control, const v1::RequestStopRequest& request,
                     absl::string_view what, Attempts* attempts,
                     v1::RequestStopResponse* requested) {
  const absl::Status status = attempts->Make(
      [&] {
        return control.chief->Call(&v1::ChiefService::Service::RequestStop, request, requested);
      },
      [] { return false; });
  const absl::Status explained = Explain(status, control);
  return absl::IsUnavailable(explained)
             ? Lost(control, what, absl::StrCat("it ", attempts->silence()))
             : explained;
}

constexpr absl::string_view kAnotherChief = "another chief has its address";

}  // namespace

absl::Status ExplainCall(const absl::Status& status, const std::string& address, bool secure) {
  if (CodeFromBetween(status) == absl::StatusCode::kUnimplemented) {
    return absl::FailedPreconditionError(absl::StrCat(
        address, " is not a chief; name the address in the chief's log or in cluster.textproto"));
  }
  const RefusedConnection refused = FindRefusal(status, secure);
  if (!refused.why.empty()) {
    return absl::Status(
        refused.certain ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable,
        absl::StrCat(address, ": ", refused.why, " (", ShortReason(status), ")"));
  }
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return status;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:  // The chief ends and cancels the calls under way.
      return absl::UnavailableError(
          absl::StrCat(address, ": no chief answers there (", ShortReason(status),
                       "); correct the address, or start the run; if the run is over, its "
                       "directory has summary.json"));
    default:
      return absl::Status(status.code(), absl::StrCat(address, ": ", status.message()));
  }
}

absl::StatusOr<v1::GetRunStatusResponse> GetStatus(const ChiefContact& control) {
  v1::GetRunStatusResponse run;
  RETURN_IF_ERROR(Explain(Ask(control, &run), control));
  const uint32_t theirs = std::max(1u, run.protocol());
  if (theirs != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: its chief speaks protocol %d, this program %d; use the program of "
                        "that run",
                        control.address, theirs, kProtocolVersion));
  }
  RETURN_IF_ERROR(CheckDirectory(control, run));
  return run;
}

absl::StatusOr<DurableCheckpoint> MakeCheckpoint(const ChiefContact& control) {
  ASSIGN_OR_RETURN(v1::GetRunStatusResponse run, GetStatus(control));
  const v1::RunState::Phase phase = run.state().phase();
  if (phase == v1::RunState::PHASE_WAITING || phase == v1::RunState::PHASE_PREPARING) {
    return absl::FailedPreconditionError(absl::StrCat(
        control.address, ": there is nothing to save yet: the run waits for ", run.waits_for()));
  }
  const uint64_t failed_before = run.failed_checkpoints();
  constexpr absl::string_view kWhat = "the checkpoint was made";
  v1::RequestStopRequest save;
  save.set_run_id(run.run_id());
  v1::RequestStopResponse requested;
  Attempts attempts(control);
  RETURN_IF_ERROR(Request(control, save, kWhat, &attempts, &requested));
  while (true) {
    v1::GetRunStatusResponse now;
    const absl::Status asked =
        attempts.Make([&] { return Ask(control, &now); }, [] { return false; });
    if (asked.ok()) {
      if (!IsSameChief(run, now)) return Lost(control, kWhat, kAnotherChief);
      run = now;
    } else if (!IsOutcomeUnknown(asked)) {
      return Explain(asked, control);
    } else if (!attempts.IsOutOfTime()) {
      return Lost(control, kWhat, absl::StrCat("it ", attempts.silence()));
    }
    if (!run.last_checkpoint().empty() && run.last_checkpoint_step() >= requested.version()) {
      return GetCheckpoint(run);
    }
    if (run.failed_checkpoints() > failed_before) {
      return absl::InternalError(
          absl::StrCat(control.address, ": no checkpoint could be made: ", run.last_failure()));
    }
    if (IsOver(run.state())) {
      return absl::FailedPreconditionError(
          absl::StrCat(control.address, ": the run ended before the checkpoint was made"));
    }
    if (attempts.IsOutOfTime()) return OutOfTime(control, run, "no checkpoint", attempts.silence());
    Pause(*control.clock);
  }
}

absl::StatusOr<DurableCheckpoint> StopRun(const ChiefContact& control, const std::string& reason) {
  ASSIGN_OR_RETURN(v1::GetRunStatusResponse run, GetStatus(control));
  constexpr absl::string_view kWhat = "the run stopped";
  v1::RequestStopRequest stop;
  stop.set_run_id(run.run_id());
  stop.set_stop(true);
  stop.set_reason(reason);
  v1::RequestStopResponse requested;
  Attempts attempts(control);
  RETURN_IF_ERROR(Request(control, stop, kWhat, &attempts, &requested));
  while (true) {
    v1::GetRunStatusResponse now;
    std::optional<Summary> summary;
    const auto has_stopped = [&] {
      if (HasStopped(run, requested.version())) return true;
      summary = HowItEnded(control, run);
      return summary.has_value();
    };
    const absl::Status asked = attempts.Make([&] { return Ask(control, &now); }, has_stopped);
    const bool is_another = asked.ok() && !IsSameChief(run, now);
    if (IsOutcomeUnknown(asked) || is_another) {
      if (has_stopped()) {
        return summary.has_value() ? CheckpointOf(control, *summary) : GetCheckpoint(run);
      }
      if (is_another) return Lost(control, kWhat, kAnotherChief);
      if (!attempts.IsOutOfTime())
        return Lost(control, kWhat, absl::StrCat("it ", attempts.silence()));
    } else if (!asked.ok()) {
      return Explain(asked, control);
    } else {
      run = now;
    }
    if (run.state().phase() == v1::RunState::PHASE_FAILED) {
      return absl::Status(
          static_cast<absl::StatusCode>(run.state().failure_code()),
          absl::StrCat(control.address, ": the run failed: ", run.state().message()));
    }
    if (IsOver(run.state())) return GetCheckpoint(run);
    if (attempts.IsOutOfTime())
      return OutOfTime(control, run, "it did not end", attempts.silence());
    Pause(*control.clock);
  }
}

}  // namespace shoal
