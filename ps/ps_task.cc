#include "ps/ps_task.h"

#include <grpcpp/channel.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "base/log.h"
#include "base/status_macros.h"
#include "ps/parameter_server.h"
#include "runtime/checkpoint/finish_detector.h"
#include "runtime/config/stop_times.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/report_address.h"
#include "runtime/process/shutdown.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/drain.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/task/chief_session_options.h"
#include "runtime/task/task_end.h"
#include "runtime/task/task_options.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

ParameterServer::Options ServerOptions(const TaskOptions& options, ChiefClient* chief) {
  ParameterServer::Options server;
  server.session = ChiefSessionOptionsFor(options);
  server.chief = chief;
  server.clock = options.clock;
  server.file_system = options.file_system;
  server.listen_address = options.listen_address;
  server.credentials = options.credentials;
  server.insecure = options.insecure;
  server.address = options.advertised_address;
  server.ps_memory = options.run.cluster().ps_memory();
  server.threads = options.run.cluster().ps_threads();
  if (server.threads == 0) server.threads = std::clamp(std::thread::hardware_concurrency(), 1u, 8u);
  server.shared_memory = !options.run.cluster().no_shared_memory();
  return server;
}

}  // namespace

absl::Status RunPs(const TaskOptions& options) {
  ChiefClient chief(NewGrpcControlChannel(
      NewGrpcChannel(options.chief_address, ChannelUse::kControl, kMaxControlMessageBytes,
                     ChannelCredentialsFor(options.credentials, kRoleChief))));
  ParameterServer::Options server_options = ServerOptions(options, &chief);
  FinishDetector ending(options.file_system, options.clock, options.run,
                        server_options.session.lease);
  server_options.session.is_over = [&ending] { return ending.IsOver(); };
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterServer> server,
                   ParameterServer::Create(server_options));
  const TaskMonitor::Shown shown(options.monitor, options.task, server->source());
  RETURN_IF_ERROR(ReportAddress(options.report_fd, server->address()));
  LOG(INFO) << "serves at " << server->address();
  const Drain drain(options.shutdown, &chief, options.clock, ComputeStopTimes(options.run).drain,
                    [&server] { server->End(); });
  const absl::Status started = server->Start();
  if (absl::IsOutOfRange(started)) {
    LOG(INFO) << "the run has ended without this ps, according to summary.json";
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(started);
  const TaskEnd end(server->Wait(), *options.shutdown);
  if (end.is_run_over()) chief.Close();
  const absl::Status stopped = server->Stop();
  if (!stopped.ok()) LOG(ERROR) << "cannot shut down cleanly: " << stopped;
  return end.result();
}

}  // namespace shoal
