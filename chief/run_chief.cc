// The process of a chief: the server, the stop on request and the wait for late tasks at the end.

#include <grpcpp/impl/service_type.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "chief/chief_task.h"
#include "runtime/cluster/address.h"
#include "runtime/cluster/cluster_spec.h"
#include "runtime/config/run_config.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/report_address.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/grpc_server.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

constexpr absl::Duration kLastLook = absl::Milliseconds(400);

// The time for which a chief without a launcher waits after a run's end for tasks that do not know
// of it: a task that is only starting would look for the chief for cluster.wait_seconds.
constexpr absl::Duration kLatecomers = absl::Seconds(10);

// Returns the addresses of the tasks that are written to the run's directory: at least that of the
// chief.
ClusterSpec ClusterServedAt(const TaskOptions& options, const std::string& listens_at) {
  ClusterSpec cluster = options.cluster;
  // If worker 0 hosts the chief, its address is in the list of workers.
  if (!cluster.chief().empty() || (options.hosts_chief && !cluster.workers().empty())) {
    return cluster;
  }
  std::string address =
      options.advertised_address.empty() ? DialledAddress(listens_at) : options.advertised_address;
  if (GetPort(address) == "0") address = WithPort(address, GetPort(listens_at));
  if (!IsUnixAddress(address)) cluster.set_chief(address);
  return cluster;
}

void AwaitLatecomers(const TaskOptions& options, Chief* chief) {
  const absl::Time end = options.clock->Now() + kLatecomers;
  bool is_logged = false;
  while (!chief->CloseRegistration(/*if_all_notified=*/true) && options.clock->Now() < end) {
    if (!is_logged)
      LOG(INFO) << "the run is over; for a while the chief still answers tasks that come late";
    is_logged = true;
    if (options.shutdown->WaitFor(absl::Milliseconds(100))) break;
  }
  chief->CloseRegistration(/*if_all_notified=*/false);
}

}  // namespace

void StopOnRequest(ShutdownNotification* shutdown, const std::shared_ptr<ChiefTask>& task) {
  shutdown->Subscribe([weak = std::weak_ptr<ChiefTask>(task)] {
    const std::shared_ptr<ChiefTask> running = weak.lock();
    if (running == nullptr) return;
    v1::RequestStopRequest request;
    request.set_stop(true);
    request.set_reason("asked to stop");
    v1::RequestStopResponse response;
    (void)running->chief()->RequestStop(request, &response);
  });
  shutdown->OnAsked(AskedFor::kCheckpoint, [weak = std::weak_ptr<ChiefTask>(task)] {
    const std::shared_ptr<ChiefTask> running = weak.lock();
    v1::RequestStopResponse response;
    if (running != nullptr) {
      (void)running->chief()->RequestStop(v1::RequestStopRequest(), &response);
    }
  });
}

absl::Status RunChief(const TaskOptions& options) {
  const uint32_t num_ps_tasks = NumPsProcesses(options.run);
  if (num_ps_tasks == 0) {
    return absl::InvalidArgumentError(
        "num_ps_tasks: a chief of its own needs at least one ps; use `shoal train`");
  }
  const bool launched = options.report_fd >= 0;  // `shoal train` or `shoal launch` started it.
  ASSIGN_OR_RETURN(
      const std::shared_ptr<ChiefTask> task,
      ChiefTask::Create(
          options, num_ps_tasks,
          [to_ps = ChannelCredentialsFor(options.credentials, kRolePs)](
              uint32_t /*ps*/, const std::string& address) {
            return std::make_unique<ParameterClient>(NewGrpcControlChannel(
                NewGrpcChannel(address, ChannelUse::kControl, kMaxControlMessageBytes, to_ps)));
          },
          launched ? ChiefTask::IfHeld::kRefuse : ChiefTask::IfHeld::kWait));
  if (task->is_finished()) return task->WaitAndConclude();
  const TaskMonitor::Shown shown(options.monitor, TaskId{Job::kChief, 0}, task.get());
  GrpcChiefService<Chief> service(task->chief());
  GrpcServer::Options server_options;
  server_options.address = options.listen_address;
  server_options.credentials = options.credentials;
  server_options.insecure = options.insecure;
  server_options.health_service = std::string(JobName(Job::kChief));
  server_options.services = {&service};
  ASSIGN_OR_RETURN(const std::unique_ptr<GrpcServer> server, GrpcServer::Create(server_options));
  server->SetServing(true);
  RETURN_IF_ERROR(task->RecordStart(ClusterServedAt(options, server->address())));
  RETURN_IF_ERROR(ReportAddress(options.report_fd, server->address()));
  LOG(INFO) << "chief of " << options.run.name() << " serves at " << server->address();
  StopOnRequest(options.shutdown, task);
  const absl::Status status = task->WaitAndConclude();
  // A launcher ends such workers itself.
  if (status.ok() && !launched) AwaitLatecomers(options, task->chief());
  // A launcher asks every 200 ms, `shoal stop` every 100: they have to see how it ended.
  if (launched || absl::IsCancelled(status)) absl::SleepFor(kLastLook);
  const absl::Status stopped = server->Stop(absl::Seconds(2));
  if (!stopped.ok()) {
    LOG(ERROR) << "calls are still running: " << stopped;
    std::_Exit(ToExitCode(status));
  }
  return status;
}

}  // namespace shoal
