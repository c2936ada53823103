#include "deploy/in_process_cluster.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "chief/chief_task.h"
#include "ps/parameter_server.h"
#include "ps/shard_variable_store.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/in_process_control_channel.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/task/chief_session_options.h"
#include "runtime/transport/in_process_bulk_channel.h"
#include "worker/worker_task.h"

namespace shoal {
namespace {

// The servers of the run, by index. Their address is that index.
class Servers {
 public:
  absl::Status Start(const TaskOptions& options, ChiefClient* chief, uint32_t num_ps_tasks) {
    for (uint32_t index = 0; index < num_ps_tasks; ++index) {
      ParameterServer::Options server;
      server.session = ChiefSessionOptionsFor(options);
      server.session.task = {Job::kPs, index};
      server.chief = chief;
      server.clock = options.clock;
      server.file_system = options.file_system;
      server.address = absl::StrCat(index);
      server.ps_memory = options.run.cluster().ps_memory();
      ASSIGN_OR_RETURN(servers_[index], ParameterServer::Create(server));
    }
    for (const auto& server : servers_) RETURN_IF_ERROR(server->Start());
    return absl::OkStatus();
  }

  explicit Servers(uint32_t num_ps_tasks) : servers_(num_ps_tasks) {}
  ParameterServer& operator[](uint32_t index) { return *servers_[index]; }
  size_t size() const { return servers_.size(); }

  void Stop() {
    for (const auto& server : servers_) {
      if (server == nullptr) continue;
      server->End();
      const absl::Status stopped = server->Stop();
      if (!stopped.ok()) LOG(ERROR) << "cannot shut down cleanly: " << stopped;
    }
  }

 private:
  std::vector<std::unique_ptr<ParameterServer>> servers_;
};

void StopRun(Chief* chief, const std::string& reason) {
  v1::RequestStopRequest request;
  request.set_stop(true);
  request.set_no_more_steps(true);
  request.set_reason(reason);
  v1::RequestStopResponse response;
  (void)chief->RequestStop(request, &response);
}

// One worker with one server needs no messages.
std::unique_ptr<VariableStore> MakeDirectStore(ParameterServer* server, const Clock* clock,
                                               std::vector<ExchangeGroup> groups,
                                               const v1::Identity& identity) {
  ShardVariableStore::Options store;
  store.run_id = identity.run_id();
  store.incarnation = identity.incarnation();
  store.groups = std::move(groups);
  return std::make_unique<ShardVariableStore>(server->shard(), std::move(store), clock);
}

// Makes a store for one of several workers or servers, which exchange messages as over a network.
std::unique_ptr<VariableStore> MakeChannelStore(Servers* servers, uint32_t worker,
                                                const Clock* clock, const SliceTable& table,
                                                std::vector<ExchangeGroup> groups,
                                                const v1::Identity& identity) {
  RemoteVariableStore::Options store;
  store.run_id = identity.run_id();
  store.worker_index = worker;
  store.incarnation = identity.incarnation();
  store.groups = std::move(groups);
  store.connect = [servers](const std::string& address) {
    return NewInProcessBulkChannel(
        (*servers)[static_cast<uint32_t>(std::stoul(address))].bulk_service());
  };
  return std::make_unique<RemoteVariableStore>(table, std::move(store), clock);
}

// Runs worker `index` of `num_workers` on the caller's thread until the run is over.
absl::Status Work(const TaskOptions& options, uint32_t index, uint32_t num_workers,
                  ChiefClient* chief, Servers* servers) {
  WorkerLinks links;
  links.chief = chief;
  links.make_store = [&](const SliceTable& table, std::vector<ExchangeGroup> groups,
                         const v1::Identity& identity) {
    return num_workers == 1 && servers->size() == 1
               ? MakeDirectStore(&(*servers)[0], options.clock, std::move(groups), identity)
               : MakeChannelStore(servers, index, options.clock, table, std::move(groups),
                                  identity);
  };
  // The notification asks the chief to stop; workers end when the run does.
  TaskOptions worker_options = options;
  ShutdownNotification worker_shutdown;
  worker_options.shutdown = &worker_shutdown;
  worker_options.task = TaskId{Job::kWorker, index};
  return RunWorkerTask(worker_options, links, ModelFromRunFile());
}

}  // namespace

absl::Status RunInProcess(const TaskOptions& options, uint32_t num_ps_tasks, uint32_t num_workers) {
  Servers servers(num_ps_tasks);  // outlives the chief, which calls them
  ASSIGN_OR_RETURN(
      const std::shared_ptr<ChiefTask> task,
      ChiefTask::Create(options, num_ps_tasks,
                        [&servers](uint32_t ps, const std::string& /*address*/) {
                          return std::make_unique<ParameterClient>(
                              NewInProcessControlChannel(servers[ps].control_service()));
                        }));
  if (task->is_finished()) return task->WaitAndConclude();
  GrpcChiefService<Chief> service(task->chief());
  ChiefClient chief(NewInProcessControlChannel(&service));
  StopOnRequest(options.shutdown, task);
  RETURN_IF_ERROR(servers.Start(options, &chief, num_ps_tasks));
  const TaskMonitor::Shown chief_shown(options.monitor, TaskId{Job::kChief, 0}, task.get());
  std::vector<std::unique_ptr<TaskMonitor::Shown>> servers_shown;
  for (uint32_t index = 0; index < num_ps_tasks; ++index) {
    servers_shown.push_back(std::make_unique<TaskMonitor::Shown>(
        options.monitor, TaskId{Job::kPs, index}, servers[index].source()));
  }

  std::vector<absl::Status> worked(num_workers);
  std::vector<std::thread> others;
  for (uint32_t index = 1; index < num_workers; ++index) {
    others.emplace_back(
        [&, index] { worked[index] = Work(options, index, num_workers, &chief, &servers); });
  }
  worked[0] = Work(options, 0, num_workers, &chief, &servers);
  for (std::thread& other : others) other.join();
  absl::Status status;
  for (const absl::Status& worker : worked) status.Update(worker);
  if (!status.ok() && !absl::IsCancelled(status)) {
    // The worker does not come back. The stop saves the applied updates; a run that is over ignores
    // it.
    LOG(INFO) << "a worker ended: "
              << status;  // logged, in case that nothing else names the reason
    StopRun(task->chief(), "a worker ended");
  }
  // The run's own error says more than what its workers make of it.
  status = task->WaitAndConclude(status);
  servers.Stop();
  return status;
}

absl::Status RunLocal(const TaskOptions& options) { return RunInProcess(options, 1, 1); }

}  // namespace shoal
