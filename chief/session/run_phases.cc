#include "chief/session/run_phases.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "runtime/rpc/run_state.h"

namespace shoal {

RunPhases::RunPhases(uint64_t term, uint64_t lineage, bool synchronous, SessionLog* log)
    : term_(term), log_(log) {
  state_.set_number(1);
  state_.set_phase(v1::RunState::PHASE_WAITING);
  state_.set_lineage(lineage);
  state_.set_synchronous(synchronous);
}

void RunPhases::NextView() {
  state_.set_view(state_.view() + 1);
  Changed();
}

bool RunPhases::is_over() const { return IsOver(state_); }

bool RunPhases::is_running() const {
  return phase() == v1::RunState::PHASE_TRAINING || phase() == v1::RunState::PHASE_STOPPING;
}

void RunPhases::Set(v1::RunState::Phase phase) {
  if (state_.phase() == phase) return;
  state_.set_phase(phase);
  if (phase == v1::RunState::PHASE_DONE && is_interrupted()) {
    state_.set_failure_code(static_cast<uint32_t>(absl::StatusCode::kCancelled));
    state_.set_message("stopped on request");
  }
  Changed();
  log_->Note(absl::StrCat(v1::RunState::Phase_Name(phase), ", step ", mode_->newest_step(),
                          ", lineage ", lineage()));
  if (is_over()) mode_->OnRunOver();
}

void RunPhases::Interrupt(const std::string& reason) {
  is_asked_to_stop_ = true;
  log_->NoteEvent(absl::StrCat("stopping: ", reason));
}

void RunPhases::EndWith(const std::string& message, absl::StatusCode code, bool unless_trained) {
  if (is_over() || !ends_with_.ok()) return;
  ends_with_ = absl::Status(code, message);
  unless_trained_ = unless_trained;
  log_->NoteTrouble(absl::StrCat("making a last checkpoint before the run fails: ", message));
}

void RunPhases::OnTrained() {
  if (is_over() || ends_with_.ok() || !unless_trained_) return;
  log_->NoteEvent(
      absl::StrCat("the run was trained to its end in spite of: ", ends_with_.message()));
  ends_with_ = absl::OkStatus();
}

void RunPhases::Finish(bool at_end, const std::string& checkpoint) {
  if (is_over()) return;
  if (!ends_with_.ok()) {
    return SetFailed(absl::StrCat(ends_with_.message(), ". ", checkpoint), ends_with_.code());
  }
  if (at_end) is_asked_to_stop_ = false;
  Set(v1::RunState::PHASE_DONE);
}

void RunPhases::GoBack() {
  state_.set_lineage(lineage() + 1);
  state_.set_phase(v1::RunState::PHASE_PREPARING);
  Changed();
}

void RunPhases::Fail(const std::string& message, absl::StatusCode code) {
  if (ends_with_.ok() || is_fenced_) return SetFailed(message, code);
  SetFailed(
      absl::StrCat(ends_with_.message(), ". The last checkpoint could not be made: ", message),
      ends_with_.code());
}

void RunPhases::SetFailed(const std::string& message, absl::StatusCode code) {
  if (is_over()) return;
  state_.set_failure_code(static_cast<uint32_t>(code));
  state_.set_message(message);
  Set(v1::RunState::PHASE_FAILED);
  log_->NoteTrouble(absl::StrCat("failed: ", message));
}

void RunPhases::Fence(const std::string& why) {
  is_fenced_ = true;
  // ABORTED makes the tasks start again, and they find the newer chief.
  Fail(absl::StrFormat("%s; this one, of term %d, ends and writes nothing more", why, term_),
       absl::StatusCode::kAborted);
}

absl::Status RunPhases::failure() const {
  const absl::Status status = GetFailure(state_);
  // A chief that starts again would only fence the newer one.
  return is_fenced_ && absl::IsAborted(status) ? absl::FailedPreconditionError(status.message())
                                               : status;
}

}  // namespace shoal
