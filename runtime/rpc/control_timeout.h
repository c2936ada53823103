// The timeout of control calls, for callers and servers.
#ifndef SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
#define SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_

#include "absl/time/time.h"

namespace shoal {

// How long the caller of a control call waits for the answer. A long-polling caller adds its wait.
// Later answers are discarded.
constexpr absl::Duration kControlTimeout = absl::Seconds(5);

// The same for LoadSlices. A ps may need longer: it continues to load, and the chief asks again.
// The answer may have been lost on its way, too.
constexpr absl::Duration kLoadTimeout = absl::Seconds(20);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
