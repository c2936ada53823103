#include "runtime/task/task_main.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

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
#include "runtime/cluster/local_worker.h"
#include "runtime/cluster/reconcile_cluster.h"
#include "runtime/cluster/task_resolver.h"
#include "runtime/config/flags.h"
#include "runtime/config/program_settings.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/stop_times.h"
#include "runtime/config/validate.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/protocol_version.h"
#include "runtime/process/route.h"
#include "runtime/process/shutdown.h"
#include "runtime/process/version.h"
#include "runtime/task/monitoring_port.h"
#include "runtime/task/task_credentials.h"
#include "runtime/tls/credentials.h"

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

// Reads --task_index, for workers also --replica_id.
absl::StatusOr<std::optional<uint32_t>> GivenIndex(const std::optional<Job>& job,
                                                   const CommandLine& line) {
  const std::optional<uint32_t> index = line.task.task_index;
  if (job != Job::kWorker || !line.run.deployment().has_replica_id()) return index;
  const uint32_t replica_id = line.run.deployment().replica_id();
  if (index.has_value() && *index != replica_id) {
    return InvalidField("--replica_id", absl::StrCat("is ", replica_id, ", but --task_index is ",
                                                     *index, "; they are the same number"));
  }
  return std::optional<uint32_t>(replica_id);
}

absl::StatusOr<std::optional<Job>> GivenJob(const std::optional<Job>& command,
                                            const std::string& job_name) {
  if (job_name.empty()) return command;
  ASSIGN_OR_RETURN(const Job named, ParseJob(job_name));
  if (command.has_value() && named != *command) {
    return InvalidField("--job_name", absl::StrCat("is ", job_name, ", but the command is `shoal ",
                                                   JobName(*command), "`; drop the flag"));
  }
  return std::optional<Job>(named);
}

absl::StatusOr<ResolvedTask> ResolvePlace(const std::optional<Job>& command,
                                          const CommandLine& line,
                                          const Surroundings& surroundings) {
  const TaskFlags& flags = line.task;
  const v1::DeploymentOptions& deployment = line.run.deployment();
  ResolverInput input;
  ASSIGN_OR_RETURN(input.from, ParseClusterSource(flags.cluster_from));
  ASSIGN_OR_RETURN(input.job, GivenJob(command, flags.job_name));
  ASSIGN_OR_RETURN(input.task_index, GivenIndex(input.job, line));
  input.cluster_file = flags.cluster_file;
  input.ps_hosts = flags.ps_hosts;
  input.worker_hosts = flags.worker_hosts;
  input.chief_host = flags.chief_host;
  input.listen_address = flags.listen_address;
  input.chief_port = flags.chief_port;
  if (deployment.has_num_ps_tasks()) input.num_ps_tasks = deployment.num_ps_tasks();
  if (deployment.has_num_replicas()) input.num_replicas = deployment.num_replicas();
  input.hostname = surroundings.hostname;
  input.environment = surroundings.environment;
  return ResolveTaskPlace(input);
}

// Returns which of the workers of its host a worker is: as its own launcher says by a flag, or
// another one by the environment.
absl::StatusOr<std::optional<LocalWorker>> PlaceAmongWorkers(const std::optional<Job>& command,
                                                             const TaskFlags& flags,
                                                             const Environment& environment) {
  if (!flags.local_worker.has_value()) {
    return FindLocalWorker(environment,
                           /*is_numbered_by_rank=*/!command.has_value() && flags.job_name.empty());
  }
  LocalWorker worker;
  worker.index = *flags.local_worker;
  return std::make_optional(worker);
}

// Returns the address that others dial: --advertise, or the address in host lists, or POD_IP for a
// ps that serves at every address. Otherwise it is empty and taken from a route (see
// RunWithSurroundings).
absl::StatusOr<std::string> AdvertisedAddress(const TaskFlags& flags, const ResolvedTask& resolved,
                                              const std::string& listen_address,
                                              const Environment& environment) {
  const absl::string_view port = PortOf(listen_address);
  if (!flags.advertise.empty()) {
    const bool has_port = CheckAddress("--advertise", flags.advertise, AddressUse::kListen).ok();
    const std::string address =
        has_port ? flags.advertise : absl::StrCat(flags.advertise, ":", port);
    RETURN_IF_ERROR(CheckAddress("--advertise", address, AddressUse::kListen));
    return address;
  }
  if (!resolved.own_address.empty()) return resolved.own_address;
  if (!IsWildcardAddress(listen_address) || !IsSet(environment, "POD_IP")) return std::string();
  const std::string address = JoinHostPort(ValueOf(environment, "POD_IP"), port);
  RETURN_IF_ERROR(CheckAddress("POD_IP", address, AddressUse::kListen));
  return address;
}

// Determines the task's identity, its listen address and its chief's address.
absl::Status TakePlace(const ResolvedTask& resolved, const TaskFlags& flags,
                       const Environment& environment, TaskOptions* options) {
  options->task = resolved.task;
  options->cluster = resolved.cluster;
  options->chief_address = resolved.chief_address;
  options->hosts_chief = resolved.hosts_chief;
  v1::DeploymentOptions* deployment = options->run.mutable_deployment();
  if (resolved.num_ps_tasks > 0) deployment->set_num_ps_tasks(resolved.num_ps_tasks);
  if (resolved.num_replicas > 0) deployment->set_num_replicas(resolved.num_replicas);
  const Job job = resolved.task.job;
  options->listen_address =
      flags.listen_address.empty() ? resolved.listen_address : flags.listen_address;
  const bool must_serve = job == Job::kChief || job == Job::kPs || resolved.hosts_chief;
  if (options->listen_address.empty()) {
    if (!must_serve) return absl::OkStatus();
    return InvalidField(
        "--listen_address",
        "is missing, and neither a host list nor --chief_port has this task's address");
  }
  RETURN_IF_ERROR(CheckAddress("--listen_address", options->listen_address, AddressUse::kListen));
  ASSIGN_OR_RETURN(options->advertised_address,
                   AdvertisedAddress(flags, resolved, options->listen_address, environment));
  return absl::OkStatus();
}

// A ps or worker need not know the numbers of tasks. It passes on the numbers in its flags, so that
// the chief can refuse different ones; for the others it assumes the least possible number.
void LeaveCountsToChief(TaskOptions* options) {
  v1::DeploymentOptions* deployment = options->run.mutable_deployment();
  const bool is_ps = options->task.job == Job::kPs;
  const uint32_t at_least = options->task.index + 1;
  options->given_num_ps_tasks = deployment->num_ps_tasks();
  options->given_num_replicas = deployment->num_replicas();
  if (!deployment->has_num_ps_tasks()) deployment->set_num_ps_tasks(is_ps ? at_least : 1);
  if (!deployment->has_num_replicas()) deployment->set_num_replicas(is_ps ? 1 : at_least);
}

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
    options->advertised_address = JoinHostPort(host, PortOf(listen));
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
  // Said before the wait, not after it.
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

absl::string_view CommandName(const std::optional<Job>& command) {
  return command.has_value() ? JobName(*command) : "task";
}

absl::StatusOr<std::string> WorkingDirectory() {
  char path[4096];
  if (getcwd(path, sizeof(path)) == nullptr) {
    return absl::FailedPreconditionError("the working directory does not exist; change to another");
  }
  return std::string(path);
}

// The exit codes, as in docs/failure_model.md.
constexpr char kExitCodes[] =
    "\nExit codes; a restart may help from 128 on:\n"
    "  0         done\n"
    "  1         internal error; lack of memory or disk space\n"
    "  2, 64     unknown command; bad flag or run file\n"
    "  65        damaged data or checkpoint\n"
    "  78        the configuration does not fit: missing file, other model or run, port in use,\n"
    "            certificates that do not match\n"
    "  130, 143  ended by SIGINT; by SIGTERM or on request; after a checkpoint\n"
    "  138       restart this task: another process took its place, or a peer was lost\n";

std::string EvaluatorHelp() {
  return absl::StrCat(
      "usage: shoal evaluator --run=FILE --out=DIR [flags]\n\n"
      "Evaluates the checkpoints of the run in DIR on the test split as they appear, the newest\n"
      "first, and appends a line for each to DIR/evaluator.jsonl and points to "
      "DIR/events/evaluator;\n"
      "with --use_averages to DIR/evaluator_averages.jsonl and DIR/events/evaluator_averages.\n"
      "The run does not know of it: start it before, during or after, or not at all. It ends when "
      "the\n"
      "run has finished, or on SIGTERM.\n\n",
      FlagHelp(kScopeTask), kExitCodes);
}

}  // namespace

absl::StatusOr<TaskOptions> ResolveTask(const std::optional<Job>& command, const CommandLine& line,
                                        const Surroundings& surroundings, ModelFrom model) {
  if (!line.arguments.empty()) {
    return InvalidField(line.arguments[0],
                        absl::StrCat("is not a flag; `shoal ", CommandName(command),
                                     "` takes only flags, see --help"));
  }
  RETURN_IF_ERROR(CheckRunGiven(line));
  TaskOptions options;
  options.run = line.run;
  ASSIGN_OR_RETURN(ResolvedTask resolved, ResolvePlace(command, line, surroundings));
  RETURN_IF_ERROR(TakePlace(resolved, line.task, surroundings.environment, &options));
  resolved.listen_address = options.listen_address;
  options.place = ToJson(resolved);
  const Job job = options.task.job;
  if (job == Job::kWorker) {
    ASSIGN_OR_RETURN(options.local_worker,
                     PlaceAmongWorkers(command, line.task, surroundings.environment));
  }
  RETURN_IF_ERROR(ReconcileCluster(options.cluster, &options.run));
  if (job != Job::kChief) LeaveCountsToChief(&options);
  ResolveDefaults(TaskCounts(), &options.run);
  if (job == Job::kWorker) options.run.mutable_deployment()->set_replica_id(options.task.index);
  v1::RunConfig checked = options.run;
  if (LeavesSettingsToProgram(line.run)) {
    options.given = line.run;
    if (checked.max_steps() == 0 && checked.num_epochs() == 0) checked.set_num_epochs(1);
  }
  RETURN_IF_ERROR(ValidateRunConfig(checked, job == Job::kWorker ? model : ModelFrom::kElsewhere));
  if (job == Job::kPs && options.task.index >= NumPsProcesses(options.run)) {
    return InvalidField("--task_index",
                        absl::StrCat("is ", options.task.index, ", but num_ps_tasks is ",
                                     NumPsProcesses(options.run), "; tasks are numbered from 0"));
  }
  if (options.run.out().empty()) {
    return InvalidField("--out", "is missing; name the run's directory, the same for all tasks");
  }
  RETURN_IF_ERROR(CheckMetricsAddress(line.task.metrics_address, MayShowPages(line.task)));
  RETURN_IF_ERROR(CheckTlsFlags(line.task));
  MakePathsAbsolute(surroundings.working_directory, &options.run);
  options.insecure = line.task.insecure;
  options.use_averages = line.task.use_averages;
  if (options.use_averages && job != Job::kEvaluator) {
    return InvalidField("--use_averages", "is for the evaluator; leave it out");
  }
  if (options.use_averages && options.run.optimizer().moving_average_decay() == 0) {
    return InvalidField("--use_averages",
                        "the run keeps no averages; train with --set "
                        "optimizer.moving_average_decay=0.999, or leave the flag out");
  }
  options.report_fd = line.task.report_fd;
  options.was_checked = line.task.parent_pid != 0;
  return options;
}

int TaskMain(const std::optional<Job>& command, absl::Span<const std::string> args,
             const RunTask& run, ModelFrom model, const Environment& environment) {
  ShutdownNotification shutdown;
  const auto end = [&](const absl::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "shoal %s: %s\n", std::string(CommandName(command)).c_str(),
                   std::string(status.message()).c_str());
    }
    return ExitCodeOf(status, shutdown);
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
  on_signals.ends_with_parent = LauncherIsParent(environment);
  // A chief makes a checkpoint first.
  const bool is_chief = options->task.job == Job::kChief || options->hosts_chief;
  const StopTimes times = StopTimesOf(options->run);
  on_signals.hard_exit_after = is_chief ? times.chief_exit : times.task_exit;
  absl::StatusOr<std::unique_ptr<SignalWatcher>> signals =
      SignalWatcher::Start(on_signals, &shutdown);
  if (!signals.ok()) return end(signals.status());
  return end(RunWithSurroundings(&*options, line->task, run, &shutdown));
}

std::string TaskHelp(const std::optional<Job>& job) {
  if (job == Job::kEvaluator) return EvaluatorHelp();
  const char* what = !job.has_value()     ? "the task that --job_name or the launcher's variables "
                                            "name: chief, ps, worker or evaluator"
                     : job == Job::kPs    ? "one parameter server: holds its share of the variables"
                     : job == Job::kChief ? "the chief: membership, steps, checkpoints, metrics"
                                          : "one worker: computes gradients of its batches";
  return absl::StrCat(
      "usage: shoal ", CommandName(job), " --run=FILE --out=DIR [flags]\n\nStarts ", what, ".\n",
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
      "  c$ shoal worker --run=FILE --out=DIR --chief_host=a:2220 --task_index=1\n\n"
      "Under a launcher that numbers its tasks, one command starts them all: job, index and the\n"
      "chief's address come from TF_CONFIG, Kubernetes, Slurm, Open MPI or torchrun, see\n"
      "--cluster_from:\n\n"
      "  srun --ntasks=5 shoal task --run=FILE --out=DIR --num_ps_tasks=2 --insecure\n\n",
      FlagHelp(kScopeTask), kExitCodes);
}

}  // namespace shoal
