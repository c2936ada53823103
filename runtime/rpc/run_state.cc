#include "runtime/rpc/run_state.h"

#include <algorithm>

#include "proto/v1/chief_service.pb.h"

namespace shoal {

bool IsOver(const v1::RunState& state) {
  return state.phase() == v1::RunState::PHASE_DONE || state.phase() == v1::RunState::PHASE_FAILED;
}

absl::Status GetFailure(const v1::RunState& state) {
  const auto code = static_cast<absl::StatusCode>(state.failure_code());
  if (state.phase() == v1::RunState::PHASE_DONE && code == absl::StatusCode::kCancelled) {
    return absl::CancelledError(state.message());
  }
  if (state.phase() != v1::RunState::PHASE_FAILED) return absl::OkStatus();
  // The field is 0, which is kOk, if the chief has not set it.
  return absl::Status(code == absl::StatusCode::kOk ? absl::StatusCode::kFailedPrecondition : code,
                      state.message());
}

std::map<uint32_t, uint64_t> WorkerIncarnations(const v1::RunState& state) {
  std::map<uint32_t, uint64_t> incarnations;
  const int count = std::min(state.workers_size(), state.worker_incarnations_size());
  for (int i = 0; i < count; ++i) incarnations[state.workers(i)] = state.worker_incarnations(i);
  const int waiting = std::min(state.waiting_workers_size(), state.waiting_incarnations_size());
  for (int i = 0; i < waiting; ++i) {
    incarnations[state.waiting_workers(i)] = state.waiting_incarnations(i);
  }
  return incarnations;
}

}  // namespace shoal
