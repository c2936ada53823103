#include "runtime/task/task_main.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/cluster/task_resolver.h"
#include "runtime/config/flags.h"
#include "runtime/config/stop_times.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/protocol_version.h"
#include "runtime/process/route.h"
#include "runtime/process/shutdown.h"
#include "runtime/process/version.h"
#include "runtime/task/monitoring_port.h"
#include "runtime/task/resolve_task.h"
#include "runtime/task/task_credentials.h"
#include "runtime/task/task_help.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

// Returns text such as "chief a:1; ps a:2,b:2; workers c:3", as far as the task knows them.
std::string DescribeCluster(const TaskOptions& options) {
  const ClusterSpec& cluster = options.cluster;
  std::vector<std::string> parts;
  const std::string& chief = cluster.chief().empty() ? options.chief_address : cluster.chief();
  if (!chief.empty()) parts.push_back(absl::StrCat("chief ", chief));
  if (!cluster.ps().empty()) parts.push_back("ps " + absl::StrJoin(cluster.ps(), ","));
  if (!cluster.workers().empty()) {
    parts.push_back("workers " + absl::StrJoin(cluster.workers(), ","));
  }
  return absl::StrJoin(parts, "; ");
}

TaskMonitor::Options MonitorOptions(const TaskOptions& options) {
  TaskMonitor::Options monitor;
  monitor.task = options.task;
  monitor.run_name = options.run.name();
  monitor.run_directory = options.run.out();
  monitor.version = kVersion;
  monitor.protocol = kProtocolVersion;
  monitor.cluster = DescribeCluster(options);
  monitor.clock = options.clock;
  return monitor;
}

// Null without --metrics_address.
absl::StatusOr<std::unique_ptr<MonitoringPort>> OpenMonitoringPort(const TaskOptions& options,
                                                                   const TaskFlags& flags) {
  if (flags.metrics_address.empty()) return nullptr;
  MonitoringPort::Options port;
  port.address = flags.metrics_address;
  port.insecure = MayShowPages(flags);
  port.task = options.task;
  port.run_directory = options.run.out();
  port.file_system = options.file_system;
  port.monitor = options.monitor;
  return MonitoringPort::Open(port);
}

// Waits until the chief's name can be resolved. gRPC itself would try less and less often, at last
// only every two minutes. Also finds the address of a ps that serves at all of them and has no
// --advertise.
absl::Status AwaitChiefsName(TaskOptions* options) {
  const std::string& listen = options->listen_address;
  if (options->chief_address.empty() || options->hosts_chief ||
      IsUnixAddress(options->chief_address)) {
    return absl::OkStatus();
  }
  const absl::Duration patience = absl::Seconds(options->run.cluster().wait_seconds());
  ASSIGN_OR_RETURN(
      const std::string host,
      AwaitLocalHostToward(options->chief_address, patience, *options->clock, options->shutdown));
  if (options->task.job == Job::kPs && options->advertised_address.empty() &&
      IsWildcardAddress(listen)) {
    options->advertised_address = JoinHostPort(host, GetPort(listen));
  }
  return absl::OkStatus();
}

void LogStatus(const TaskMonitor& monitor) {
  for (const absl::string_view line :
       absl::StrSplit(monitor.StatusText(), '\n', absl::SkipEmpty())) {
    LOG(INFO) << line;
  }
}

absl::Status RunWithSurroundings(TaskOptions* options, const TaskFlags& flags, const RunTask& run,
                                 ShutdownNotification* shutdown) {
  LogOptions log;
  log.task = options->task.ToString();
  log.file = flags.log_file;
  RETURN_IF_ERROR(SetUpLog(log));
  ASSIGN_OR_RETURN(const std::unique_ptr<Credentials> credentials,
                   ReadTaskCredentials(flags, options->task, options->hosts_chief, absl::Now()));
  if (credentials != nullptr) {
    LOG(INFO) << "mutual TLS as " << credentials->identity().scope << "/"
              << RoleNames(credentials->identity().roles);
  }
  const RealClock clock;
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  options->credentials = credentials.get();
  options->clock = &clock;
  options->file_system = file_system.get();
  options->shutdown = shutdown;
  TaskMonitor monitor(MonitorOptions(*options));
  options->monitor = &monitor;
  // Declared last: callbacks of signals use the objects above.
  const absl::Cleanup no_more_requests = [shutdown] { shutdown->Close(); };
  shutdown->OnAsked(AskedFor::kStatus, [&monitor] { LogStatus(monitor); });
  shutdown->OnAsked(AskedFor::kReload, [log] {
    const absl::Status opened = SetUpLog(log);
    LOG(INFO) << "reopened the log (SIGHUP)" << (opened.ok() ? "" : "; ")
              << (opened.ok() ? "" : opened.message());
  });
  ASSIGN_OR_RETURN(const std::unique_ptr<MonitoringPort> port, OpenMonitoringPort(*options, flags));
  LOG(INFO) << "cluster " << options->place;
  // Checked before the wait, so that the error comes at once.
  const bool serves = options->task.job == Job::kChief || options->task.job == Job::kPs;
  if (credentials == nullptr && serves && !options->listen_address.empty()) {
    const absl::Status allowed = CheckListenAddress(options->listen_address, options->insecure);
    if (!allowed.ok()) {
      return absl::Status(allowed.code(), absl::StrCat("--listen_address: ", allowed.message()));
    }
  }
  RETURN_IF_ERROR(AwaitChiefsName(options));
  const absl::Status status = run(*options);
  if (status.ok()) {
    LOG(INFO) << "done";
  } else if (!flags.log_file.empty()) {
    LOG(ERROR) << "ended status=" << status;  // Standard error gets it as the last line.
  }
  return status;
}

absl::StatusOr<std::string> WorkingDirectory() {
  char path[4096];
  if (getcwd(path, sizeof(path)) == nullptr) {
    return absl::FailedPreconditionError("the working directory does not exist; change to another");
  }
  return std::string(path);
}

}  // namespace

int TaskMain(const std::optional<Job>& command, absl::Span<const std::string> args,
             const RunTask& run, ModelFrom model, const Environment& environment) {
  const pid_t parent = getppid();  // First: it may be killed at any time.
  ShutdownNotification shutdown;
  const auto end = [&](const absl::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "shoal %s: %s\n", std::string(CommandName(command)).c_str(),
                   std::string(status.message()).c_str());
    }
    return ToExitCode(status, shutdown);
  };
  absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTask, args);
  if (!line.ok()) return end(line.status());
  if (line->help) {
    std::fputs(TaskHelp(command).c_str(), stdout);
    return kExitDone;
  }
  if (line->task.parent_pid != 0) DieWithParent(line->task.parent_pid);
  absl::StatusOr<std::string> directory = WorkingDirectory();
  if (!directory.ok()) return end(directory.status());
  absl::StatusOr<TaskOptions> options =
      ResolveTask(command, *line, {*directory, HostName(), environment}, model);
  if (!options.ok()) return end(options.status());
  RaiseFileLimit();
  SignalOptions on_signals;
  on_signals.hang_up_reloads = true;
  if (LauncherIsParent(environment)) on_signals.parent = parent;
  // A chief makes a checkpoint first.
  const bool is_chief = options->task.job == Job::kChief || options->hosts_chief;
  const StopTimes times = ComputeStopTimes(options->run);
  on_signals.hard_exit_after = is_chief ? times.chief_exit : times.task_exit;
  absl::StatusOr<std::unique_ptr<SignalWatcher>> signals =
      SignalWatcher::Start(on_signals, &shutdown);
  if (!signals.ok()) return end(signals.status());
  return end(RunWithSurroundings(&*options, line->task, run, &shutdown));
}

}  // namespace shoal
