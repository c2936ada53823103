#include "runtime/process/task_main.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/monitoring_port.h"
#include "runtime/process/shutdown.h"
#include "runtime/process/task_credentials.h"
#include "runtime/rpc/credentials.h"

namespace shoal {
namespace {

// tests/real_process/by_hand_test.py runs it as it stands.
constexpr char kLocalExample[] =
    "  shoal chief  --run=FILE --out=DIR --num_ps_tasks=2 --num_replicas=2 "
    "--listen_address=127.0.0.1:2220 &\n"
    "  shoal ps     --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=0 "
    "--listen_address=127.0.0.1:0 &\n"
    "  shoal ps     --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=1 "
    "--listen_address=127.0.0.1:0 &\n"
    "  shoal worker --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=0 &\n"
    "  shoal worker --run=FILE --out=DIR --chief_host=127.0.0.1:2220 --task_index=1 &\n"
    "  wait\n";

absl::StatusOr<ClusterSpec> ReadCluster(const TaskFlags& flags) {
  const bool lists =
      !flags.ps_hosts.empty() || !flags.worker_hosts.empty() || !flags.chief_host.empty();
  if (flags.cluster_file.empty()) {
    return ClusterSpec::FromHostLists(flags.ps_hosts, flags.worker_hosts, flags.chief_host);
  }
  if (lists) {
    return Broken(
        "--cluster",
        "is given together with --ps_hosts, --worker_hosts or --chief_host; use one form");
  }
  return ClusterSpec::FromFile(flags.cluster_file);
}

// From --task_index, for workers also --replica_id, or 0 where nothing else is possible.
absl::StatusOr<TaskId> ResolveTaskId(Job job, const CommandLine& line, const ClusterSpec& cluster) {
  const TaskFlags& flags = line.task;
  if (!flags.job_name.empty()) {
    ASSIGN_OR_RETURN(const Job named, ParseJob(flags.job_name));
    if (named != job) {
      return Broken("--job_name",
                    absl::StrCat("is ", flags.job_name, ", but the command is `shoal ",
                                 JobName(job), "`; drop the flag"));
    }
  }
  TaskId task{job, flags.task_index.value_or(0)};
  if (job == Job::kWorker && line.run.deployment().has_replica_id()) {
    const uint32_t replica_id = line.run.deployment().replica_id();
    if (flags.task_index.has_value() && *flags.task_index != replica_id) {
      return Broken("--replica_id", absl::StrCat("is ", replica_id, ", but --task_index is ",
                                                 *flags.task_index, "; they are the same number"));
    }
    task.index = replica_id;
    return task;
  }
  const size_t tasks = job == Job::kPs ? cluster.ps().size() : cluster.workers().size();
  if (job != Job::kChief && !flags.task_index.has_value() && tasks != 1) {
    return Broken("--task_index", absl::StrCat("is missing; say which task of job ", JobName(job),
                                               " this is, from 0"));
  }
  if (job == Job::kChief && task.index != 0) {
    return Broken("--task_index", absl::StrCat("is ", task.index, "; the only chief is task 0"));
  }
  return task;
}

// Where the task serves and where its chief is.
absl::Status ResolveAddresses(const TaskFlags& flags, TaskOptions* options) {
  const ClusterSpec& cluster = options->cluster;
  const TaskId task = options->task;
  const bool listed = task.job == Job::kPs ? !cluster.ps().empty() : !cluster.workers().empty();
  std::string own;
  if (task.job == Job::kChief) {
    own = cluster.chief();
  } else if (listed) {
    ASSIGN_OR_RETURN(own, cluster.Address(task));
  }
  options->hosts_chief = task == TaskId{Job::kWorker, 0} && cluster.chief().empty() && listed;
  if (task.job != Job::kChief) {
    options->chief_address = cluster.chief();
    if (cluster.chief().empty() && !cluster.workers().empty()) {
      options->chief_address = cluster.workers()[0];
    }
    if (options->chief_address.empty()) {
      return Broken("--chief_host", "is missing; a task needs the chief's address, host:port");
    }
  }
  options->listen_address = flags.listen_address.empty() ? own : flags.listen_address;
  if (task.job == Job::kWorker && !options->hosts_chief) return absl::OkStatus();
  if (options->listen_address.empty()) {
    return Broken("--listen_address", "is missing, and no host list has this task's address");
  }
  if (task.job == Job::kPs && own.empty() && IsWildcardAddress(options->listen_address)) {
    return Broken("--listen_address",
                  absl::StrCat("is ", options->listen_address,
                               ", which workers cannot dial; name this ps's own address here, or "
                               "every ps in --ps_hosts"));
  }
  if (task.job == Job::kPs) options->advertised_address = own;
  return CheckAddress("--listen_address", options->listen_address, /*allow_port_zero=*/true);
}

// A ps or worker need not know how many tasks there are. What it was told it passes on, so that the
// chief can refuse another number; what it was not told is as many as there must be at least.
void LeaveCountsToChief(TaskOptions* options) {
  v1::DeploymentOptions* deployment = options->run.mutable_deployment();
  const bool is_ps = options->task.job == Job::kPs;
  const uint32_t at_least = options->task.index + 1;
  options->told_num_ps_tasks = deployment->num_ps_tasks();
  options->told_num_replicas = deployment->num_replicas();
  if (!deployment->has_num_ps_tasks()) deployment->set_num_ps_tasks(is_ps ? at_least : 1);
  if (!deployment->has_num_replicas()) deployment->set_num_replicas(is_ps ? 1 : at_least);
}

// "chief a:1; ps a:2,b:2; workers c:3": as far as the task was told.
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
  monitor.cluster = DescribeCluster(options);
  monitor.clock = options.clock;
  return monitor;
}

// Null if the task was not told to show itself.
absl::StatusOr<std::unique_ptr<MonitoringPort>> OpenMonitoringPort(const TaskOptions& options,
                                                                   const TaskFlags& flags) {
  if (flags.metrics_address.empty()) return nullptr;
  MonitoringPort::Options port;
  port.address = flags.metrics_address;
  port.insecure = MayShowPages(flags);
  port.task = options.task;
  port.run_name = options.run.name();
  port.run_directory = options.run.out();
  port.file_system = options.file_system;
  port.monitor = options.monitor;
  return MonitoringPort::Open(port);
}

absl::Status RunWithSurroundings(TaskOptions* options, const TaskFlags& flags, const RunTask& run,
                                 ShutdownNotification* shutdown) {
  LogOptions log;
  log.task = options->task.ToString();
  log.file = flags.log_file;
  RETURN_IF_ERROR(SetUpLog(log));
  ASSIGN_OR_RETURN(const std::unique_ptr<Credentials> credentials,
                   ReadCredentials(flags, JobName(options->task.job), absl::Now()));
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
  ASSIGN_OR_RETURN(const std::unique_ptr<MonitoringPort> port, OpenMonitoringPort(*options, flags));
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

absl::StatusOr<TaskOptions> ResolveTask(Job job, const CommandLine& line,
                                        const std::string& working_directory, ModelFrom model) {
  if (!line.arguments.empty()) {
    return Broken(line.arguments[0], "is no flag; `shoal " + std::string(JobName(job)) +
                                         "` takes only flags, see --help");
  }
  TaskOptions options;
  options.run = line.run;
  ASSIGN_OR_RETURN(options.cluster, ReadCluster(line.task));
  ASSIGN_OR_RETURN(options.task, ResolveTaskId(job, line, options.cluster));
  RETURN_IF_ERROR(ResolveAddresses(line.task, &options));
  RETURN_IF_ERROR(ReconcileCluster(options.cluster, &options.run));
  if (job != Job::kChief) LeaveCountsToChief(&options);
  ResolveDefaults(TaskCounts(), &options.run);
  if (job == Job::kWorker) options.run.mutable_deployment()->set_replica_id(options.task.index);
  RETURN_IF_ERROR(
      ValidateRunConfig(options.run, job == Job::kWorker ? model : ModelFrom::kElsewhere));
  if (job == Job::kPs && options.task.index >= NumPsProcesses(options.run)) {
    return Broken("--task_index",
                  absl::StrCat("is ", options.task.index, ", but num_ps_tasks is ",
                               NumPsProcesses(options.run), "; tasks are numbered from 0"));
  }
  if (options.run.out().empty()) {
    return Broken("--out", "is missing; name the run's directory, the same for all tasks");
  }
  RETURN_IF_ERROR(CheckMetricsAddress(line.task.metrics_address, MayShowPages(line.task)));
  MakePathsAbsolute(working_directory, &options.run);
  RETURN_IF_ERROR(CheckTlsFlags(line.task));
  options.insecure = line.task.insecure;
  options.report_fd = line.task.report_fd;
  return options;
}

int TaskMain(Job job, absl::Span<const std::string> args, const RunTask& run, ModelFrom model) {
  ShutdownNotification shutdown;
  const auto end = [&](const absl::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "shoal %s: %s\n", std::string(JobName(job)).c_str(),
                   std::string(status.message()).c_str());
    }
    return ExitCodeOf(status, shutdown);
  };
  absl::StatusOr<CommandLine> line = ParseCommandLine(kScopeTask, args);
  if (!line.ok()) return end(line.status());
  if (line->help) {
    std::fputs(TaskHelp(job).c_str(), stdout);
    return kExitDone;
  }
  if (line->task.parent_pid != 0) DieWithParent(line->task.parent_pid);
  absl::StatusOr<std::string> directory = WorkingDirectory();
  if (!directory.ok()) return end(directory.status());
  absl::StatusOr<TaskOptions> options = ResolveTask(job, *line, *directory, model);
  if (!options.ok()) return end(options.status());
  RaiseFileLimit();
  SignalOptions on_signals;
  // A chief makes a checkpoint first.
  if (job == Job::kChief) on_signals.hard_exit_after = absl::Seconds(60);
  absl::StatusOr<std::unique_ptr<SignalWatcher>> signals =
      SignalWatcher::Start(on_signals, &shutdown);
  if (!signals.ok()) return end(signals.status());
  return end(RunWithSurroundings(&*options, line->task, run, &shutdown));
}

std::string TaskHelp(Job job) {
  const char* what = job == Job::kPs      ? "one parameter server: holds its share of the variables"
                     : job == Job::kChief ? "the chief: membership, steps, checkpoints, metrics"
                                          : "one worker: computes gradients of its batches";
  return absl::StrCat(
      "usage: shoal ", JobName(job), " --run=FILE --out=DIR [flags]\n\nStarts ", what, ".\n",
      "`shoal train` starts all tasks of a run on this machine; this command is for tasks that "
      "are\n"
      "started one by one, in any order. All get the same run file and the same DIR, which every\n"
      "machine must see. Only the chief must know how many tasks there are, by --num_ps_tasks and\n"
      "--num_replicas or by host lists; the others need --chief_host.\n\n"
      "One chief, two parameter servers and two workers on this machine:\n\n",
      kLocalExample,
      "\nThe same on the machines a, b and c:\n\n"
      "  a$ shoal chief  --run=FILE --out=DIR --num_ps_tasks=2 --num_replicas=2 \\\n"
      "                  --listen_address=a:2220 --insecure\n"
      "  b$ shoal ps     --run=FILE --out=DIR --chief_host=a:2220 --task_index=0 \\\n"
      "                  --listen_address=b:2222 --insecure\n"
      "  b$ shoal worker --run=FILE --out=DIR --chief_host=a:2220 --task_index=0\n"
      "  c$ shoal ps     --run=FILE --out=DIR --chief_host=a:2220 --task_index=1 \\\n"
      "                  --listen_address=c:2222 --insecure\n"
      "  c$ shoal worker --run=FILE --out=DIR --chief_host=a:2220 --task_index=1\n\n",
      FlagHelp(kScopeTask),
      "\nExit codes: 0 done; 1 internal error; 2 bad command; 64 bad flags or run file; 65 damaged "
      "data;\n78 does not fit what is there; 130, 143 stopped by a signal after a checkpoint; 138 "
      "start me again.\n");
}

}  // namespace shoal
