// Where the form of a bulk channel is chosen.
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

// Makes the channels of one process. Thread-safe. Channels must be gone before it is.
class BulkConnector {
 public:
  struct Options {
    size_t max_payload_bytes = kDefaultMaxBulkPayloadBytes;
    // Shared memory with servers on this host that offer it; not with credentials, which it does
    // not ask for.
    bool shared_memory = true;
    // Of the gRPC channels; null: plaintext.
    std::shared_ptr<grpc::ChannelCredentials> credentials;
    // How long the thread of the gRPC channels polls before it sleeps.
    absl::Duration spin = absl::ZeroDuration();
  };

  explicit BulkConnector(const Options& options) : options_(options), grpc_client_(options.spin) {}

  // Shared memory if `address` is a loopback address whose server offers it (this may take seconds
  // where the server does not answer), else gRPC, which connects when first used. A log line says
  // when it is gRPC where shared memory was wanted.
  std::unique_ptr<BulkChannel> Connect(const std::string& address);

 private:
  const Options options_;
  GrpcBulkClient grpc_client_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_EXCHANGE_BULK_CONNECTOR_H_
