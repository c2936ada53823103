#include "deploy/operator_requests.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "proto/v1/chief_service.grpc.pb.h"
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

absl::StatusOr<v1::GetRunStatusResponse> Ask(const ChiefContact& control) {
  v1::GetRunStatusRequest request;
  request.set_protocol(kProtocolVersion);
  v1::GetRunStatusResponse run;
  RETURN_IF_ERROR(control.chief->Call(&v1::ChiefService::Service::GetRunStatus, request, &run));
  return run;
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

// The error if the chief ended, or another run took its address, before the request was fulfilled.
absl::Status Lost(const ChiefContact& control, absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat(control.address, ": the chief was lost before it reported that ", what,
                   "; see its log and summary.json in the run's directory"));
}

absl::Status OutOfTime(const ChiefContact& control, const v1::GetRunStatusResponse& run,
                       absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrFormat(
      "%s: %s within %s; the run is at step %d%s", control.address, what,
      absl::FormatDuration(control.timeout), run.step(),
      run.waits_for().empty() ? "" : absl::StrCat(" and waits for ", run.waits_for())));
}

// Returns whether a chief that ends after this answer has fulfilled the request: only the tasks
// still had to end.
bool HasStopped(const v1::GetRunStatusResponse& run, uint64_t version) {
  return run.state().phase() == v1::RunState::PHASE_STOPPING && !run.last_checkpoint().empty() &&
         run.last_checkpoint_step() >= version;
}

absl::Status Explain(const absl::Status& status, const ChiefContact& control) {
  return ExplainCall(status, control.address, control.secure);
}

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
  const absl::StatusOr<v1::GetRunStatusResponse> run = Ask(control);
  if (!run.ok()) return Explain(run.status(), control);
  const uint32_t theirs = std::max(1u, run->protocol());
  if (theirs != kProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrFormat("%s: its chief speaks protocol %d, this program %d; use the program of "
                        "that run",
                        control.address, theirs, kProtocolVersion));
  }
  RETURN_IF_ERROR(CheckDirectory(control, *run));
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
  const std::string run_id = run.run_id();
  v1::RequestStopRequest save;
  save.set_run_id(run_id);
  v1::RequestStopResponse requested;
  RETURN_IF_ERROR(Explain(
      control.chief->Call(&v1::ChiefService::Service::RequestStop, save, &requested), control));
  const absl::Time end = control.clock->Now() + control.timeout;
  while (true) {
    ASSIGN_OR_RETURN(run, GetStatus(control));
    if (run.run_id() != run_id) return Lost(control, "the checkpoint was made");
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
    if (control.clock->Now() >= end) return OutOfTime(control, run, "no checkpoint");
    Pause(*control.clock);
  }
}

absl::StatusOr<DurableCheckpoint> StopRun(const ChiefContact& control, const std::string& reason) {
  ASSIGN_OR_RETURN(v1::GetRunStatusResponse run, GetStatus(control));
  v1::RequestStopRequest stop;
  stop.set_run_id(run.run_id());
  stop.set_stop(true);
  stop.set_reason(reason);
  v1::RequestStopResponse requested;
  RETURN_IF_ERROR(Explain(
      control.chief->Call(&v1::ChiefService::Service::RequestStop, stop, &requested), control));
  const absl::Time end = control.clock->Now() + control.timeout;
  while (true) {
    const absl::StatusOr<v1::GetRunStatusResponse> now = Ask(control);
    if (IsOutcomeUnknown(now.status()) || (now.ok() && now->run_id() != run.run_id())) {
      if (HasStopped(run, requested.version())) return GetCheckpoint(run);
      return Lost(control, "the run stopped");
    }
    if (!now.ok()) return Explain(now.status(), control);
    run = *now;
    if (run.state().phase() == v1::RunState::PHASE_FAILED) {
      return absl::Status(
          static_cast<absl::StatusCode>(run.state().failure_code()),
          absl::StrCat(control.address, ": the run failed: ", run.state().message()));
    }
    if (IsOver(run.state())) return GetCheckpoint(run);
    if (control.clock->Now() >= end) return OutOfTime(control, run, "it did not end");
    Pause(*control.clock);
  }
}

}  // namespace shoal
