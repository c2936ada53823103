#include "runtime/process/task_main.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/cluster/address.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

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
  return CheckAddress("--listen_address", options->listen_address, /*allow_port_zero=*/true);
}

absl::Status RunWithSurroundings(TaskOptions* options, const TaskFlags& flags, const RunTask& run,
                                 ShutdownNotification* shutdown) {
  LogOptions log;
  log.task = options->task.ToString();
  log.file = flags.log_file;
  RETURN_IF_ERROR(SetUpLog(log));
  const RealClock clock;
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  options->clock = &clock;
  options->file_system = file_system.get();
  options->shutdown = shutdown;
  const absl::Status status = run(*options);
  if (status.ok()) {
    LOG(INFO) << "done";
  } else {
    LOG(ERROR) << "ended status=" << status;
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
                                        const std::string& working_directory) {
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
  ResolveDefaults(TaskCounts(), &options.run);
  if (job == Job::kWorker) options.run.mutable_deployment()->set_replica_id(options.task.index);
  RETURN_IF_ERROR(ValidateRunConfig(options.run));
  if (job == Job::kPs && options.task.index >= options.run.deployment().num_ps_tasks()) {
    return Broken("--task_index", absl::StrCat("is ", options.task.index, ", but num_ps_tasks is ",
                                               options.run.deployment().num_ps_tasks(),
                                               "; tasks are numbered from 0"));
  }
  if (options.run.out().empty()) {
    return Broken("--out", "is missing; name the run's directory, the same for all tasks");
  }
  if (!absl::StartsWith(options.run.out(), "/")) {
    options.run.set_out(absl::StrCat(working_directory, "/", options.run.out()));
  }
  options.allow_plaintext = line.task.allow_plaintext;
  options.report_fd = line.task.report_fd;
  return options;
}

int TaskMain(Job job, absl::Span<const std::string> args, const RunTask& run) {
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
  absl::StatusOr<TaskOptions> options = ResolveTask(job, *line, *directory);
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
      "usage: shoal ", JobName(job), " --run=FILE --out=DIR --task_index=N --chief_host=HOST:PORT ",
      "[flags]\n\nStarts ", what, ".\n",
      "`shoal train` starts all tasks of a run on this machine; this command is for tasks that "
      "are\n"
      "started one by one, in any order, on any machines. All must get the same run file.\n\n"
      "  shoal chief  --run=R --out=D --chief_host=a:2220 --listen_address=0.0.0.0:2220 "
      "--allow_plaintext\n"
      "  shoal ps     --run=R --out=D --chief_host=a:2220 --task_index=0 --ps_hosts=b:2222,c:2222 "
      "\\\n"
      "                --allow_plaintext\n"
      "  shoal worker --run=R --out=D --chief_host=a:2220 --task_index=0 "
      "--worker_hosts=d:1,e:1\n\n",
      FlagHelp(kScopeTask),
      "\nExit codes: 0 done; 1 internal error; 2 bad command; 64 bad flags or run file; 65 damaged "
      "data;\n78 does not fit what is there; 130, 143 stopped by a signal after a checkpoint; 138 "
      "start me again.\n");
}

}  // namespace shoal
