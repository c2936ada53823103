#include "runtime/rpc/control_timeout.h"

#include "proto/v1/chief_service.pb.h"

namespace shoal {

absl::Duration GetControlTimeout(const v1::HeartbeatRequest& request) {
  return kControlTimeout + absl::Milliseconds(request.wait_milliseconds());
}

absl::Duration GetControlTimeout(const v1::LoadSlicesRequest& /*request*/) { return kLoadTimeout; }

}  // namespace shoal
