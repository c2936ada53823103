#include "runtime/rpc/run_state.h"

#include "proto/v1/chief_service.pb.h"

namespace shoal {

bool IsOver(const v1::RunState& state) {
  return state.phase() == v1::RunState::PHASE_DONE || state.phase() == v1::RunState::PHASE_FAILED;
}

absl::Status FailureOf(const v1::RunState& state) {
  if (state.phase() != v1::RunState::PHASE_FAILED) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(state.failure_code());
  // OK is what a chief that says nothing says.
  return absl::Status(code == absl::StatusCode::kOk ? absl::StatusCode::kFailedPrecondition : code,
                      state.message());
}

}  // namespace shoal
