// Functions that read the chief's RunState.
#ifndef SHOAL_RUNTIME_RPC_RUN_STATE_H_
#define SHOAL_RUNTIME_RPC_RUN_STATE_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"

namespace shoal {

namespace v1 {
class RunState;
}

// Returns whether the run has ended, successfully or not, so that all tasks exit.
bool IsOver(const v1::RunState& state);

// Returns the error with which the chief and every task exit: the run's error if it failed,
// CANCELLED if it was stopped, otherwise OK.
absl::Status GetFailure(const v1::RunState& state);

// Returns, by index, the incarnations that the chief has issued to the workers of the view, and to
// those that get no work until they have reached all ps.
std::map<uint32_t, uint64_t> WorkerIncarnations(const v1::RunState& state);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_RUN_STATE_H_
