// A ps task: its shard with all that serves it. The assembly; the parts have the logic.
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
#include "runtime/rpc/parameter_client.h"
#include "runtime/transport/bulk.h"

namespace shoal {
namespace v1 {
class RunConfig;
}  // namespace v1

class Credentials;
class ParameterShard;
class TaskSource;

// Thread-safe but for Create, Start and Stop.
class ParameterServer {
 public:
  struct Options {
    uint32_t index = 0;
    ChiefClient* chief = nullptr;  // Must outlive the server, as must the next two.
    const Clock* clock = nullptr;
    FileSystem* file_system = nullptr;
    std::shared_ptr<const v1::RunConfig> shared_run;  // SharedByAllTasks; null: none is told.
    std::string run_directory;  // As the task was told, else empty; for the chief's log.
    uint32_t num_ps_tasks = 0;  // As far as it was told, else 0; the chief refuses other numbers.
    uint32_t num_replicas = 0;
    std::string nonce;  // Random per process.
    // Serve over gRPC here; empty: only this process reaches the server, by the accessors below.
    std::string listen_address;
    const Credentials* credentials = nullptr;  // Of that; see GrpcServer::Options.
    bool insecure = false;
    // What the chief is told, and it the workers; empty: where the server listens.
    std::string address;
    std::string chief_address;  // What `chief` dials, for messages; empty: this process.
    absl::Duration register_patience = absl::Seconds(300);
    std::function<bool()> is_over;             // See ChiefSession::Options.
    absl::Duration lease = absl::Seconds(10);  // The chief's, see ChiefSession::Options.
    absl::Duration heartbeat_wait = absl::Seconds(1);
    size_t max_payload_bytes = kDefaultMaxBulkPayloadBytes;
    uint64_t ps_memory =
        0;  // Bytes that the ps may use, if the kernel does not allow fewer; 0: any.
    uint64_t staging_bytes = 0;  // See SliceStoreOptions; 0: as ps_memory allows.
    // Offer shared memory to workers on this host; only with a listen address and without
    // credentials.
    bool shared_memory = true;
    // How many threads serve the bulk path of gRPC, and of shared memory; over as many parts the
    // slices are spread.
    size_t threads = 1;
    // How long a bulk thread polls before it sleeps.
    absl::Duration spin = absl::ZeroDuration();
  };

  // Listens. Errors: see GrpcServer::Create.
  static absl::StatusOr<std::unique_ptr<ParameterServer>> Create(const Options& options);
  // The same as Stop.
  ~ParameterServer();

  const std::string& address() const;
  ParameterClient* parameter_service();
  BulkService* bulk_service();
  // For a ShardVariableStore of this process.
  ParameterShard* shard();
  // Ready: all variables of the run's lineage are here.
  const TaskSource* source() const;

  // Registers with the chief (see ChiefSession::Register) and serves.
  absl::Status Start();

  // Blocks until the run is over: OK, or the error with which it failed, if the chief has told it.
  // CANCELLED after End.
  // ABORTED: this task was replaced. UNAVAILABLE: the chief is lost. FAILED_PRECONDITION: the chief
  // will not have this task.
  absl::Status Wait();
  // Makes Wait return CANCELLED unless the run is over.
  void End();

  // Stops serving, in the reverse order of the start. DEADLINE_EXCEEDED: a call does not return,
  // the process should exit. Idempotent.
  absl::Status Stop();

 private:
  class Core;
  explicit ParameterServer(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SERVER_H_
