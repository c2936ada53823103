// Runs a worker in its own process, with gRPC connections.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/log.h"
#include "runtime/exchange/bulk_connector.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/process/exit_code.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/grpc_server.h"
#include "runtime/tls/credentials.h"
#include "worker/worker_task.h"

namespace shoal {
namespace {

// Serves only the gRPC health service, for a worker with an address. Returns null without an
// address, or, after a log line, if it cannot serve there; the run does not need it.
std::unique_ptr<GrpcServer> ServeHealth(const TaskOptions& options) {
  if (options.listen_address.empty()) return nullptr;
  GrpcServer::Options server;
  server.address = options.listen_address;
  server.credentials = options.credentials;
  server.insecure = options.insecure;
  server.health_service = std::string(JobName(Job::kWorker));
  absl::StatusOr<std::unique_ptr<GrpcServer>> served = GrpcServer::Create(server);
  if (!served.ok()) {
    LOG(WARNING) << "this worker has no health service and continues without it: "
                 << served.status();
    return nullptr;
  }
  LOG(INFO) << "health service at " << (*served)->address();
  return *std::move(served);
}

}  // namespace

absl::Status RunWorker(const TaskOptions& options, const ModelFactory& model) {
  const std::unique_ptr<GrpcServer> health = ServeHealth(options);
  ChiefClient chief(NewGrpcControlChannel(
      NewGrpcChannel(options.chief_address, ChannelUse::kControl, kMaxControlMessageBytes,
                     ChannelCredentialsFor(options.credentials, kRoleChief))));
  BulkConnector::Options bulk_options;
  bulk_options.shared_memory = !options.run.cluster().no_shared_memory();
  // Null without TLS: those for plaintext would rule out shared memory.
  if (options.credentials != nullptr) {
    bulk_options.credentials = ChannelCredentialsFor(options.credentials, kRolePs);
  }
  BulkConnector bulk(bulk_options);
  WorkerLinks links;
  links.chief = &chief;
  links.close_chief = [&chief] { chief.Close(); };
  links.on_ready = [&health](bool ready) {
    if (health != nullptr) health->SetServing(ready);
  };
  links.abandon = [](const absl::Status& why) {
    std::fprintf(stderr, "shoal worker: %s; the batch under way does not end\n",
                 std::string(why.message()).c_str());
    std::_Exit(ToExitCode(why));
  };
  RemoteVariableStore* remote = nullptr;
  links.make_store = [&](const SliceTable& table, std::vector<ExchangeGroup> groups,
                         const v1::Identity& identity) {
    RemoteVariableStore::Options store;
    store.run_id = identity.run_id();
    store.worker_index = options.task.index;
    store.incarnation = identity.incarnation();
    store.groups = std::move(groups);
    store.connect = [&bulk](const std::string& address) { return bulk.Connect(address); };
    store.secure = options.credentials != nullptr;
    auto made = std::make_unique<RemoteVariableStore>(table, std::move(store), options.clock);
    remote = made.get();
    return made;
  };
  links.check_links = [&remote] { return remote->CheckLinks(); };
  return RunWorkerTask(options, links, model);
}

absl::Status RunWorker(const TaskOptions& options) {
  return RunWorker(options, ModelFromRunFile());
}

}  // namespace shoal
