// The one place that makes gRPC channels, with the settings that this project has measured and
// decided on.
#ifndef SHOAL_RUNTIME_RPC_CHANNEL_H_
#define SHOAL_RUNTIME_RPC_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/transport/peer_channel.h"

namespace grpc {
class ChannelCredentials;
}

namespace shoal {

// Control messages are small; a server that only has control services refuses larger ones. The
// largest are those with all variables and the owner of each slice, which the chief's plan keeps
// below kMaxPlanBytes: 8000 variables with names of 60 bytes, or 780000 slices.
inline constexpr size_t kMaxControlMessageBytes = 1 << 20;
inline constexpr size_t kMaxPlanBytes = kMaxControlMessageBytes / 4 * 3;

enum class ChannelUse {
  kControl,  // Small calls; shares a connection with other control channels to the same address.
  kBulk,     // A connection of its own, so that control never waits behind payloads.
};

// Connects when first used and again whenever the connection is lost (0.1 s to 1 s apart), with the
// name looked up again. A peer that does not answer pings for 15 s counts as lost.
// `max_message_bytes` bounds messages both ways. `credentials` (see credentials.h): null is
// plaintext, which a server with TLS refuses.
std::unique_ptr<PeerChannel> NewGrpcChannel(
    const std::string& address, ChannelUse use, size_t max_message_bytes,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CHANNEL_H_
