// What a task reads from the chief's RunState.
#ifndef SHOAL_RUNTIME_RPC_RUN_STATE_H_
#define SHOAL_RUNTIME_RPC_RUN_STATE_H_

#include <cstdint>
#include <map>

#include "absl/status/status.h"

namespace shoal {

namespace v1 {
class RunState;
}

// Whether the run has ended, well or not: everybody exits.
bool IsOver(const v1::RunState& state);

// What ended the run before its end, with which the chief and every task exit: the error that it
// failed with, CANCELLED where it was stopped; else OK.
absl::Status FailureOf(const v1::RunState& state);

// The incarnations that the chief has issued to the workers of the view, and to those that wait for
// work until they have reached all ps, by index.
std::map<uint32_t, uint64_t> WorkerIncarnations(const v1::RunState& state);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_RUN_STATE_H_
