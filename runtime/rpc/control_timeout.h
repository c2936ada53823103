// For those who answer control calls as well as those who make them.
#ifndef SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
#define SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_

#include "absl/time/time.h"

namespace shoal {

// How long the caller of a control call waits for the answer; one who asks to be kept waiting adds
// that. Who answers late was asked in vain.
constexpr absl::Duration kControlTimeout = absl::Seconds(5);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
