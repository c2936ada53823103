// The timeouts of control calls, for callers and servers.
#ifndef SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
#define SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_

#include "absl/time/time.h"

namespace google {
namespace protobuf {
class Message;
}
}  // namespace google

namespace shoal {
namespace v1 {
class HeartbeatRequest;
class LoadSlicesRequest;
}  // namespace v1

// The caller of a control call waits for the answer for this time. Later answers are discarded.
constexpr absl::Duration kControlTimeout = absl::Seconds(5);

// The same for LoadSlices. A ps may need longer: it continues to load, and the chief asks again.
// The answer may have been lost on its way, too.
constexpr absl::Duration kLoadTimeout = absl::Seconds(20);

// Returns the timeout of the call with this request. A heartbeat adds the time that the chief may
// hold it.
inline absl::Duration GetControlTimeout(const google::protobuf::Message& /*request*/) {
  return kControlTimeout;
}
absl::Duration GetControlTimeout(const v1::HeartbeatRequest& request);
absl::Duration GetControlTimeout(const v1::LoadSlicesRequest& request);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CONTROL_TIMEOUT_H_
