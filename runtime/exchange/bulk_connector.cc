#include "runtime/exchange/bulk_connector.h"

#include <grpcpp/channel.h>

#include <utility>

#include "absl/status/statusor.h"

#include "base/log.h"
#include "runtime/cluster/address.h"
#include "runtime/rpc/channel.h"
#include "runtime/transport/shared_memory_bulk_channel.h"

namespace shoal {

std::unique_ptr<BulkChannel> BulkConnector::Connect(const std::string& address) {
  if (options_.shared_memory && options_.credentials == nullptr && IsLoopbackAddress(address)) {
    absl::StatusOr<std::unique_ptr<BulkChannel>> channel =
        ConnectSharedMemory(address, options_.max_payload_bytes);
    if (channel.ok()) return std::move(*channel);
    LOG(INFO) << "no shared memory with the ps at " << address
              << ", gRPC instead: " << channel.status();
  }
  return grpc_client_.NewChannel(NewGrpcChannel(address, ChannelUse::kBulk,
                                                options_.max_payload_bytes + kMaxBulkHeaderBytes,
                                                options_.credentials));
}

}  // namespace shoal
