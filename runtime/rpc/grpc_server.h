// A task's gRPC server: control services, the bulk path, health.
#ifndef SHOAL_RUNTIME_RPC_GRPC_SERVER_H_
#define SHOAL_RUNTIME_RPC_GRPC_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/rpc/channel.h"

namespace grpc {
class CallbackGenericService;
class Server;
class Service;
}  // namespace grpc

namespace shoal {

class Credentials;
class GrpcBulkServer;

// Serves from Create to Stop. The standard health service answers SERVING for the process (the
// empty name) all the time, and for `health_service` only while SetServing(true) holds.
class GrpcServer {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";  // Port 0: one that is free; see port().
    // Outlives the server; null: plaintext, and then where other machines can connect only if
    // `insecure`.
    const Credentials* credentials = nullptr;
    bool insecure = false;
    size_t max_message_bytes = kMaxControlMessageBytes;
    // Memory for messages of all connections together; above it gRPC refuses and cancels calls, not
    // at once. Zero: a quarter of what this process may use, see base/memory_limit.h.
    size_t memory_bytes = 0;
    std::string health_service;            // The role: "ps", "chief", "worker"; empty: none.
    std::vector<grpc::Service*> services;  // Must outlive the server. None: only health.
    GrpcBulkServer* bulk = nullptr;        // May be null; must outlive the server.
  };

  // PERMISSION_DENIED: address others can reach. FAILED_PRECONDITION: the address cannot be
  // listened on, e.g. port in use.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(const Options& options);

  // Stops with half a second of grace.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const { return port_; }
  // Where clients on this machine find it: the listen address with the port filled in.
  const std::string& address() const { return address_; }

  void SetServing(bool serving);

  // Refuses new calls, lets running ones finish for `grace`, then cancels them. DEADLINE_EXCEEDED
  // if a call is still running `limit` after that: memory it uses must then not be freed, so the
  // process should exit. Idempotent.
  absl::Status Stop(absl::Duration grace, absl::Duration limit = absl::Seconds(10));

 private:
  GrpcServer(const Options& options, std::unique_ptr<grpc::CallbackGenericService> others,
             std::unique_ptr<grpc::Server> server, std::string address, int port);

  GrpcBulkServer* const bulk_;
  const std::string health_service_;
  // Refuses what no service has: gRPC wants one that is ours. Shared as the next.
  const std::shared_ptr<grpc::CallbackGenericService> others_;
  std::shared_ptr<grpc::Server> server_;  // Shared with the thread that shuts it down.
  const std::string address_;
  const int port_;
  bool stopped_ = false;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_SERVER_H_
