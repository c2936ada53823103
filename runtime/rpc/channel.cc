#include "runtime/rpc/channel.h"

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace shoal {

std::unique_ptr<PeerChannel> NewGrpcChannel(
    const std::string& address, ChannelUse use, size_t max_message_bytes,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name: how long an attempt to connect may take. Refused attempts end at once.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // A name may have another address after a restart; gRPC would wait 30 s before it looks again.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1'000);
  // Retries are ours: only we know which calls may be repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A proxy from the environment must not see training traffic.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (use == ChannelUse::kBulk) arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(max_message_bytes));
  return std::make_unique<PeerChannel>(
      [address, arguments,
       known = credentials != nullptr ? credentials : grpc::InsecureChannelCredentials()] {
        return grpc::CreateCustomChannel(address, known, arguments);
      });
}

}  // namespace shoal
