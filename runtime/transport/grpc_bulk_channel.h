// The client's side of the bulk path over gRPC.
#ifndef SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_CHANNEL_H_
#define SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_CHANNEL_H_

#include <memory>

#include "absl/time/time.h"

#include "runtime/transport/bulk.h"

namespace shoal {

class CompletionLoop;
class PeerChannel;

// Owns the completion queue and the one thread that serves all of its channels and copies replies
// into their destinations. Thread-safe. Must outlive its channels.
class GrpcBulkClient {
 public:
  // `spin` is how long the thread polls after its last event before it sleeps; zero saves CPU time.
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
