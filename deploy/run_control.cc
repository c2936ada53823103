#include "deploy/run_control.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/run_state.h"

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

// What a call's error means to whoever named the address.
absl::Status Explain(const absl::Status& status, const std::string& address) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return status;
    case absl::StatusCode::kUnimplemented:
      return absl::FailedPreconditionError(absl::StrCat(
          address, " is no chief; name the address in the chief's log or in cluster.textproto"));
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return absl::UnavailableError(
          absl::StrCat(address, ": no chief answers there (", status.message(),
                       "); is the run over? Its directory has summary.json then"));
    default:
      return absl::Status(status.code(), absl::StrCat(address, ": ", status.message()));
  }
}

absl::StatusOr<v1::GetRunStatusResponse> Ask(const RunControl& control) {
  v1::GetRunStatusRequest request;
  request.set_protocol(kProtocolVersion);
  v1::GetRunStatusResponse run;
  RETURN_IF_ERROR(control.chief->GetRunStatus(request, &run));
  return run;
}

DurableCheckpoint CheckpointOf(const v1::GetRunStatusResponse& run) {
  if (run.last_checkpoint().empty()) return {};
  return {run.last_checkpoint_step(),
          absl::StrCat(run.run_directory(), "/checkpoints/", run.last_checkpoint())};
}

// "lost the chief" while waiting for what it was asked to do.
absl::Status OutOfTime(const RunControl& control, const v1::GetRunStatusResponse& run,
                       absl::string_view what) {
  return absl::DeadlineExceededError(absl::StrFormat(
      "%s: %s within %s; the run is at step %d%s", control.address, what,
      absl::FormatDuration(control.timeout), run.step(),
      run.waits_for().empty() ? "" : absl::StrCat(" and waits for ", run.waits_for())));
}

}  // namespace

absl::StatusOr<v1::GetRunStatusResponse> GetStatus(const RunControl& control) {
  const absl::StatusOr<v1::GetRunStatusResponse> run = Ask(control);
  if (!run.ok()) return Explain(run.status(), control.address);
  const uint32_t theirs = std::max(1u, run->protocol());
  if (theirs == kProtocolVersion) return run;
  return absl::FailedPreconditionError(
      absl::StrFormat("%s: its chief speaks protocol %d, this program %d; use the program of that "
                      "run",
                      control.address, theirs, kProtocolVersion));
}

absl::StatusOr<DurableCheckpoint> MakeCheckpoint(const RunControl& control) {
  ASSIGN_OR_RETURN(v1::GetRunStatusResponse run, GetStatus(control));
  const v1::RunState::Phase phase = run.state().phase();
  if (phase == v1::RunState::PHASE_WAITING || phase == v1::RunState::PHASE_PREPARING) {
    return absl::FailedPreconditionError(absl::StrCat(
        control.address, ": there is nothing to save yet: the run waits for ", run.waits_for()));
  }
  const uint64_t failed_before = run.failed_checkpoints();
  v1::RequestStopResponse requested;
  RETURN_IF_ERROR(
      Explain(control.chief->RequestStop(v1::RequestStopRequest(), &requested), control.address));
  const absl::Time end = control.clock->Now() + control.timeout;
  while (true) {
    ASSIGN_OR_RETURN(run, GetStatus(control));
    if (!run.last_checkpoint().empty() && run.last_checkpoint_step() >= requested.version()) {
      return CheckpointOf(run);
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

absl::StatusOr<DurableCheckpoint> StopRun(const RunControl& control, const std::string& reason) {
  ASSIGN_OR_RETURN(v1::GetRunStatusResponse run, GetStatus(control));
  v1::RequestStopRequest stop;
  stop.set_run_id(run.run_id());
  stop.set_stop(true);
  stop.set_reason(reason);
  v1::RequestStopResponse requested;
  RETURN_IF_ERROR(Explain(control.chief->RequestStop(stop, &requested), control.address));
  const absl::Time end = control.clock->Now() + control.timeout;
  while (true) {
    const absl::StatusOr<v1::GetRunStatusResponse> now = Ask(control);
    // The chief goes soon after it has said that the run is over.
    if (absl::IsUnavailable(now.status())) return CheckpointOf(run);
    if (!now.ok()) return Explain(now.status(), control.address);
    run = *now;
    if (run.state().phase() == v1::RunState::PHASE_FAILED) {
      return absl::Status(
          static_cast<absl::StatusCode>(run.state().failure_code()),
          absl::StrCat(control.address, ": the run failed: ", run.state().message()));
    }
    if (IsOver(run.state())) return CheckpointOf(run);
    if (control.clock->Now() >= end) return OutOfTime(control, run, "it did not end");
    Pause(*control.clock);
  }
}

}  // namespace shoal
