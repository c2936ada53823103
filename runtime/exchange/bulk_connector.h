// Chooses the transport of bulk channels: shared memory or gRPC.
#ifndef SHOAL_RUNTIME_EXCHANGE_BULK_CONNECTOR_H_
#define SHOAL_RUNTIME_EXCHANGE_BULK_CONNECTOR_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "runtime/transport/bulk.h"
#include "runtime/transport/grpc_bulk_channel.h"

namespace grpc {
class ChannelCredentials;
}

namespace shoal {

// Makes the channels of one process. Thread-safe. Must outlive its channels.
class BulkConnector {
 public:
  struct Options {
    size_t max_payload_bytes = kDefaultMaxBulkPayloadBytes;
    // Uses shared memory with servers on this host that offer it. Ignored with credentials, which
    // shared memory does not check.
    bool shared_memory = true;
    // The credentials of gRPC channels; null: plaintext.
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    // The thread of the gRPC channels polls for this time before it sleeps.
    absl::Duration spin = absl::ZeroDuration();
  };

  explicit BulkConnector(const Options& options) : options_(options), grpc_client_(options.spin) {}

  // Connects by shared memory if `address` is a loopback address whose server offers it; this may
  // take seconds if the server does not answer. Otherwise returns a gRPC channel, which connects
  // when it is first used. If shared memory was wanted but is not offered, a log line says so.
  std::unique_ptr<BulkChannel> Connect(const std::string& address);

 private:
  const Options options_;
  GrpcBulkClient grpc_client_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_BULK_CONNECTOR_H_
