#ifndef SHOAL_RUNTIME_RPC_GRPC_CONTROL_CHANNEL_H_
#define SHOAL_RUNTIME_RPC_GRPC_CONTROL_CHANNEL_H_

#include <memory>

#include "runtime/rpc/control_client.h"

namespace shoal {

class PeerChannel;

// Returns a channel that carries control calls over gRPC.
std::unique_ptr<ControlChannel> NewGrpcControlChannel(std::unique_ptr<PeerChannel> peer);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_CONTROL_CHANNEL_H_
