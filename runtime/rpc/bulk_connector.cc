#include "runtime/rpc/bulk_connector.h"

#include <grpcpp/channel.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

#include "runtime/rpc/channel.h"
#include "runtime/rpc/credentials.h"
#include "runtime/transport/shared_memory_bulk_channel.h"

namespace shoal {

std::unique_ptr<BulkChannel> BulkConnector::Connect(const std::string& address) {
  int port = 0;
  const bool is_local =
      IsLoopbackAddress(address) &&
      absl::SimpleAtoi(absl::string_view(address).substr(address.rfind(':') + 1), &port);
  if (options_.shared_memory && is_local) {
    absl::StatusOr<std::unique_ptr<BulkChannel>> channel =
        ConnectSharedMemory(port, options_.max_payload_bytes);
    if (channel.ok()) return std::move(*channel);
  }
  return grpc_client_.NewChannel(
      NewGrpcChannel(address, ChannelUse::kBulk, options_.max_payload_bytes + kMaxBulkHeaderBytes));
}

}  // namespace shoal
