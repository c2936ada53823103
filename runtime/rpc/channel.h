// Makes all gRPC channels, with the settings that this project has measured and chosen.
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

// The bound for control messages; a server that has only control services refuses larger ones. The
// largest contain all variables and the owner of each slice. The chief's plan keeps these below
// kMaxPlanBytes, which is enough for 8000 variables with names of 60 bytes, or for 780000 slices.
inline constexpr size_t kMaxControlMessageBytes = 1 << 20;
inline constexpr size_t kMaxPlanBytes = kMaxControlMessageBytes / 4 * 3;

enum class ChannelUse {
  kControl,  // Small calls; shares a connection with other control channels to the same address.
  kBulk,     // Its own connection, so that control calls never wait behind payloads.
};

// Returns a channel that connects when it is first used, and reconnects (0.1 s to 1 s apart,
// resolving the name again) whenever the connection is lost. A peer that does not answer pings for
// 15 s counts as lost. `max_message_bytes` bounds requests and responses. Null `credentials` (see
// credentials.h) mean plaintext, which a server with TLS refuses.
std::unique_ptr<PeerChannel> NewGrpcChannel(
    const std::string& address, ChannelUse use, size_t max_message_bytes,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials = nullptr);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_CHANNEL_H_
