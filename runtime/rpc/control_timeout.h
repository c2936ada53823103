// The timeout of control calls, for callers and servers.
#ifndef SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
#define SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_

#include "absl/time/time.h"

namespace shoal {

// How long the caller of a control call waits for the answer. A long-polling caller adds its wait.
// Later answers are discarded.
constexpr absl::Duration kControlTimeout = absl::Seconds(5);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
