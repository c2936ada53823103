// A ps task: its shard, the services around it and the session with the chief. This class only
// assembles them; the parts hold the logic.
#ifndef SHOAL_PS_PARAMETER_SERVER_H_
#define SHOAL_PS_PARAMETER_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/chief_session.h"
#include "runtime/transport/bulk.h"

namespace grpc {
class Service;
}

namespace shoal {
class Credentials;
class ParameterServiceImpl;
class ParameterShard;
class TaskSource;

// Thread-safe except for Create, Start and Stop.
class ParameterServer {
 public:
  struct Options {
    // The registration with the chief. The server fills in the job, its address, and `secure`.
    ChiefSession::Options session;
    ChiefClient* chief = nullptr;  // Must outlive the server, as must the next two.
    const Clock* clock = nullptr;
    FileSystem* file_system = nullptr;
    // The address to serve gRPC at. Empty: only this process reaches the server, by the accessors
    // below.
    std::string listen_address;
    const Credentials* credentials = nullptr;  // For listen_address; see GrpcServer::Options.
    bool insecure = false;
    // The address that the chief and the workers dial; empty: the address that the server listens
    // at.
    std::string address;
    size_t max_payload_bytes = kDefaultMaxBulkPayloadBytes;
    // Bytes that the ps may use, unless the kernel allows fewer; 0: no limit.
    uint64_t ps_memory = 0;
    uint64_t staging_bytes = 0;  // See SliceStoreOptions; 0: derived from ps_memory.
    // Offers shared memory to workers on this host. Has an effect only with a listen address and
    // without credentials.
    bool shared_memory = true;
    // The number of threads that serve the bulk path of gRPC, the number of those that serve shared
    // memory, and the number of parts that the slices are spread over.
    size_t threads = 1;
    // A bulk thread polls for this time before it sleeps.
    absl::Duration spin = absl::ZeroDuration();
  };

  // Creates the server and listens. For errors see GrpcServer::Create.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Create(const Options& options);
  // The same as Stop.
  ~ParameterServer();

  const std::string& address() const;
  // The chief's calls, for a chief in the same process and for tests.
  grpc::Service* control_service();
  ParameterServiceImpl* parameter_service();
  BulkService* bulk_service();
  // Returns the shard, which a ShardVariableStore in the same process uses.
  ParameterShard* shard();
  // Metrics and readiness; ready means that all variables of the run's lineage are loaded.
  const TaskSource* source() const;

  // Registers with the chief (see ChiefSession::Register) and serves.
  absl::Status Start();

  // Blocks until the run is over and returns OK, or the run's error if the chief has announced one.
  // Returns CANCELLED after End, ABORTED if this task was replaced, UNAVAILABLE if the chief is
  // lost, FAILED_PRECONDITION if the chief refuses this task.
  absl::Status Wait();
  // Makes Wait return CANCELLED unless the run is over.
  void End();

  // Stops serving, in the reverse order of the start. Returns DEADLINE_EXCEEDED if a call does not
  // return; the process should exit then. Idempotent.
  absl::Status Stop();

 private:
  class Core;
  explicit ParameterServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SERVER_H_
