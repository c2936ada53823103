// The gRPC form of the bulk path, server's side.
#ifndef SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_SERVER_H_
#define SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_SERVER_H_

#include <memory>

#include "absl/time/time.h"

#include "runtime/transport/bulk.h"

namespace grpc {
class ServerBuilder;
}

namespace shoal {

// Serves the bulk method on a gRPC server that others may share, with threads of its own. Life:
// AddTo, the server's start, Start; then the service answers all its calls, the server's shutdown
// (with a deadline), Stop.
class GrpcBulkServer {
 public:
  struct Options {
    int num_threads = 1;
    // How long a thread polls after its last event before it sleeps; zero to save the core.
    absl::Duration spin = absl::ZeroDuration();
  };

  // `service` must outlive this object and its calls.
  GrpcBulkServer(BulkService* service, const Options& options);
  ~GrpcBulkServer();
  GrpcBulkServer(const GrpcBulkServer&) = delete;
  GrpcBulkServer& operator=(const GrpcBulkServer&) = delete;

  void AddTo(grpc::ServerBuilder* builder);
  void Start();
  // Replies after this are dropped. The gRPC server must have been shut down.
  void Stop();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_SERVER_H_
