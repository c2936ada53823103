#ifndef SHOAL_RUNTIME_RPC_HEALTH_CLIENT_H_
#define SHOAL_RUNTIME_RPC_HEALTH_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
}

namespace shoal {

// Asks the standard health service (grpc.health.v1.Health/Check) of any gRPC server. The service ""
// is the process; "ps", "chief" and "worker" are the roles. Returns OK if the service is serving,
// UNAVAILABLE if it is not or the server does not answer, NOT_FOUND if the server does not know the
// service, or DEADLINE_EXCEEDED.
absl::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel, const std::string& service,
                         absl::Duration timeout);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_HEALTH_CLIENT_H_
