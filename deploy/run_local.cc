#include "deploy/run_local.h"

#include <memory>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "base/system_random.h"
#include "chief/chief_task.h"
#include "ps/parameter_server.h"
#include "runtime/config/run_config.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/remote_variable_store.h"
#include "runtime/transport/in_process_bulk_channel.h"
#include "worker/worker_task.h"

namespace shoal {
namespace {

// The chief owns its clients; this one only lends the server's.
class LentParameterClient : public ParameterClient {
 public:
  explicit LentParameterClient(ParameterClient* client) : client_(client) {}
  absl::Status LoadSlices(const v1::LoadSlicesRequest& request,
                          v1::LoadSlicesResponse* response) override {
    return client_->LoadSlices(request, response);
  }
  absl::Status WithholdBatch(const v1::WithholdBatchRequest& request,
                             v1::WithholdBatchResponse* response) override {
    return client_->WithholdBatch(request, response);
  }
  absl::Status DecideBatch(const v1::DecideBatchRequest& request,
                           v1::DecideBatchResponse* response) override {
    return client_->DecideBatch(request, response);
  }
  absl::Status RequestCut(const v1::RequestCutRequest& request,
                          v1::RequestCutResponse* response) override {
    return client_->RequestCut(request, response);
  }
  absl::Status GetApplied(const v1::GetAppliedRequest& request,
                          v1::GetAppliedResponse* response) override {
    return client_->GetApplied(request, response);
  }
  absl::Status Finish(const v1::FinishRequest& request, v1::FinishResponse* response) override {
    return client_->Finish(request, response);
  }

 private:
  ParameterClient* const client_;
};

}  // namespace

absl::Status RunLocal(const TaskOptions& options) {
  // Made after the chief, which asks for it only when the server has registered.
  std::unique_ptr<ParameterServer> server;
  ASSIGN_OR_RETURN(
      const std::shared_ptr<ChiefTask> task,
      ChiefTask::Create(options, 1, [&server](uint32_t /*ps*/, const std::string& /*address*/) {
        return std::make_unique<LentParameterClient>(server->parameter_service());
      }));
  if (task->is_finished()) return task->WaitAndConclude();
  options.shutdown->Subscribe([weak = std::weak_ptr<ChiefTask>(task)] {
    const std::shared_ptr<ChiefTask> running = weak.lock();
    if (running == nullptr) return;
    v1::RequestStopRequest request;
    request.set_stop(true);
    request.set_reason("told to stop");
    v1::RequestStopResponse response;
    (void)running->chief()->RequestStop(request, &response);
  });

  ParameterServer::Options server_options;
  server_options.chief = task->chief();
  server_options.clock = options.clock;
  server_options.file_system = options.file_system;
  server_options.config_fingerprint = ConfigFingerprint(options.run);
  server_options.nonce = SystemRandomHex();
  server_options.address = "in this process";
  ASSIGN_OR_RETURN(server, ParameterServer::Create(server_options));
  RETURN_IF_ERROR(server->Start());

  WorkerLinks links;
  links.chief = task->chief();
  links.make_store = [&](const SliceTable& table, std::vector<ExchangeGroup> groups,
                         const v1::Identity& identity) {
    RemoteVariableStore::Options store;
    store.run_id = identity.run_id();
    store.incarnation = identity.incarnation();
    store.groups = std::move(groups);
    store.connect = [&server](const std::string& /*address*/) {
      return NewInProcessBulkChannel(server->bulk_service());
    };
    return std::make_unique<RemoteVariableStore>(table, std::move(store), options.clock);
  };
  // The chief is told to stop by the notification; the worker ends when the run does.
  TaskOptions worker_options = options;
  ShutdownNotification worker_shutdown;
  worker_options.shutdown = &worker_shutdown;
  worker_options.task = TaskId{Job::kWorker, 0};
  const absl::Status worked = RunWorkerTask(worker_options, links, ModelFromRunFile());
  if (!worked.ok()) {
    LOG(ERROR) << "the worker ended: " << worked;
    server->End();
    (void)server->Stop();
    return worked;
  }
  const absl::Status status = task->WaitAndConclude();
  const absl::Status stopped = server->Stop();
  if (!stopped.ok()) LOG(ERROR) << "cannot stop in order: " << stopped;
  return status;
}

}  // namespace shoal
