// The gRPC form of the bulk path, client's side.
#ifndef SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_CHANNEL_H_

#include <memory>

#include "absl/time/time.h"

#include "runtime/transport/bulk.h"

namespace shoal {

class CompletionLoop;
class PeerChannel;

// Owns the completion queue and the one thread that serves all channels made here: replies are
// copied into their destinations on it. Thread-safe. The channels must be gone before it is.
class GrpcBulkClient {
 public:
  // `spin`: how long the thread polls after its last event before it sleeps; zero to save the core.
  explicit GrpcBulkClient(absl::Duration spin = absl::ZeroDuration());
  ~GrpcBulkClient();
  GrpcBulkClient(const GrpcBulkClient&) = delete;
  GrpcBulkClient& operator=(const GrpcBulkClient&) = delete;

  // Message limits, keepalive and credentials are those of `peer`.
  std::unique_ptr<BulkChannel> NewChannel(std::unique_ptr<PeerChannel> peer);

 private:
  std::unique_ptr<CompletionLoop> loop_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_CHANNEL_H_
