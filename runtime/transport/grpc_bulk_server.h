// The server's side of the bulk path over gRPC.
#ifndef SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_SERVER_H_
#define SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_SERVER_H_

#include <memory>

#include "absl/time/time.h"

#include "runtime/transport/bulk.h"

namespace grpc {
class ServerBuilder;
}

namespace shoal {

// Serves the bulk method, with its own threads, on a gRPC server that may have other services too.
// Call AddTo, start the gRPC server, call Start. To end, let the service answer all its calls, shut
// the gRPC server down (with a deadline), call Stop.
class GrpcBulkServer {
 public:
  struct Options {
    int num_threads = 1;
    // A thread polls for this time after its last event before it sleeps; zero saves CPU time.
    absl::Duration spin = absl::ZeroDuration();
  };

  // `service` must outlive this object and its calls.
  GrpcBulkServer(BulkService* service, const Options& options);
  ~GrpcBulkServer();
  GrpcBulkServer(const GrpcBulkServer&) = delete;
  GrpcBulkServer& operator=(const GrpcBulkServer&) = delete;

  void AddTo(grpc::ServerBuilder* builder);
  void Start();
  // Ends the threads; later replies are dropped. The gRPC server must have been shut down.
  void Stop();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TRANSPORT_GRPC_BULK_SERVER_H_
