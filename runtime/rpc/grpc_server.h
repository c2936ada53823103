// A task's gRPC server with control services, the bulk path and health.
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
    std::string address = "127.0.0.1:0";  // Port 0 means a free port; see port().
    // Must outlive the server. Null means plaintext; then an address that other machines can reach
    // is refused unless `insecure`.
    const Credentials* credentials = nullptr;
    bool insecure = false;
    size_t max_message_bytes = kMaxControlMessageBytes;
    // The memory for messages of all connections together; above it gRPC gradually refuses and
    // cancels calls. 0: a quarter of the memory that this process may use, see base/memory_limit.h.
    size_t memory_bytes = 0;
    std::string health_service;            // The role: "ps", "chief" or "worker"; may be empty.
    std::vector<grpc::Service*> services;  // Must outlive the server. May be empty.
    GrpcBulkServer* bulk = nullptr;        // May be null; must outlive the server.
  };

  // Returns PERMISSION_DENIED if other machines could reach the plaintext server,
  // FAILED_PRECONDITION if it cannot listen at the address, for example because the port is in use.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(const Options& options);

  // Stops with half a second of grace.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const { return port_; }
  // The address for clients on this machine: the listen address with the actual port.
  const std::string& address() const { return address_; }

  void SetServing(bool serving);

  // Refuses new calls, waits up to `grace` for running ones, then cancels them. Returns
  // DEADLINE_EXCEEDED if a call is still running after another `limit`; the memory that it uses
  // must not be freed then, so the process should exit. Idempotent.
  absl::Status Stop(absl::Duration grace, absl::Duration limit = absl::Seconds(10));

 private:
  GrpcServer(const Options& options, std::unique_ptr<grpc::CallbackGenericService> others,
             std::unique_ptr<grpc::Server> server, std::string address, int port);

  GrpcBulkServer* const bulk_;
  const std::string health_service_;
  // Refuses calls of unknown methods; gRPC requires a service object for that. Shared like server_.
  const std::shared_ptr<grpc::CallbackGenericService> others_;
  std::shared_ptr<grpc::Server> server_;  // Shared with the thread that shuts the server down.
  const std::string address_;
  const int port_;
  bool stopped_ = false;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_GRPC_SERVER_H_
