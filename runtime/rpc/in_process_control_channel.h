#ifndef SHOAL_RUNTIME_RPC_IN_PROCESS_CONTROL_CHANNEL_H_
#define SHOAL_RUNTIME_RPC_IN_PROCESS_CONTROL_CHANNEL_H_

#include <memory>

#include "runtime/rpc/control_client.h"

namespace shoal {

// Returns a channel whose calls run on the caller's thread. `service` must outlive the channel and
// be of the generated class that the client is for.
std::unique_ptr<ControlChannel> NewInProcessControlChannel(grpc::Service* service);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_IN_PROCESS_CONTROL_CHANNEL_H_
