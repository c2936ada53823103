#include "deploy/train_command.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/log.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "deploy/ignored_settings.h"
#include "deploy/launch/break_off.h"
#include "deploy/launch/divergence.h"
#include "deploy/launch/held_run_directory.h"
#include "deploy/launch/launcher.h"
#include "deploy/launch/output_tail.h"
#include "deploy/launch/reconstructed_summary.h"
#include "deploy/launch/result_printer.h"
#include "deploy/launch/run_display.h"
#include "deploy/launch/task_places.h"
#include "runtime/cluster/local_worker.h"
#include "runtime/config/flags.h"
#include "runtime/config/program_settings.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/stop_times.h"
#include "runtime/config/validate.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/protocol_version.h"
#include "runtime/process/shutdown.h"
#include "runtime/process/version.h"
#include "runtime/task/monitoring_port.h"
#include "runtime/task/task_credentials.h"
#include "runtime/tls/credentials.h"
#include "worker/replica/worker_devices.h"

namespace shoal {
namespace {

// The longest time for a worker to end after its compute program.
constexpr absl::Duration kWorkerEnds = absl::Seconds(10);

std::string Describe(const v1::RunConfig& run) {
  const v1::DeploymentOptions& deployment = run.deployment();
  std::string where = "one process";
  if (NumPsProcesses(run) > 0) {
    where = absl::StrCat("1 chief, ", NumPsProcesses(run), " ps, ", deployment.num_replicas(),
                         deployment.num_replicas() == 1 ? " worker" : " workers");
  }
  return absl::StrCat("training ", run.name(), ": ", where,
                      IsSynchronous(run) ? ", synchronous" : ", asynchronous", ", batch ",
                      run.replica_batch_size() > 0
                          ? absl::StrCat(run.replica_batch_size(), " per worker")
                          : absl::StrCat(run.batch_size(), " per clone"),
                      "\nin ", run.out(), " (Ctrl-C makes a checkpoint and stops)");
}

// The other flags of `shoal train`, which are not part of the run.
struct TrainFlags {
  std::string command;  // The command resumes the run if --run=FILE is added.
  std::string metrics_address;
  bool may_show_pages = false;
  std::vector<std::string> of_tasks;  // For every task.
  std::unique_ptr<Credentials> credentials;
  std::unique_ptr<TaskPlaces> places;  // Null: this machine.
  // The declaration of the run's compute program, if it has one.
  std::optional<v1::WorkerProgram> asked;
  bool follows_program = false;   // It has one, and the run does not resume by its own run file.
  std::string ignored;            // The line of FindIgnoredSettings.
  std::string newest_checkpoint;  // PreflightCheck's.
  std::atomic<int> checkpoints_wanted = 0;
};

absl::Status RunInThisProcess(const TrainRoles& roles, TaskOptions options,
                              const TrainFlags& flags) {
  options.task = TaskId{Job::kWorker, 0};
  LogOptions log;
  log.task = options.task.ToString();
  log.file = absl::StrCat(options.run.out(), "/logs/worker-0.log");
  RETURN_IF_ERROR(SetUpLog(log));
  RETURN_IF_ERROR(WriteAtomically(*options.file_system,
                                  absl::StrCat(options.run.out(), "/cluster.textproto"),
                                  "# One process: there is no cluster.\n"));
  TaskMonitor::Options shown;
  shown.task = options.task;
  shown.run_name = options.run.name();
  shown.run_directory = options.run.out();
  shown.version = kVersion;
  shown.protocol = kProtocolVersion;
  shown.cluster = "one process";
  shown.clock = options.clock;
  TaskMonitor monitor(std::move(shown));
  options.monitor = &monitor;
  if (flags.metrics_address.empty()) return roles.run_local(options);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<MonitoringPort> port,
      MonitoringPort::Open({flags.metrics_address, flags.may_show_pages, TaskId{Job::kChief, 0},
                            options.run.out(), options.file_system, &monitor}));
  options.progress->Print(PageLine(port->address()));
  return roles.run_local(options);
}

// The GPUs that the workers of this machine share.
uint32_t GpusToShare(const TrainRoles& roles) {
  return roles.place || roles.count_gpus == nullptr ? 0 : roles.count_gpus();
}

absl::Status RunAsProcesses(const TrainRoles& roles, const TaskOptions& options,
                            const TrainFlags& flags, std::string* checkpoint_failure) {
  Launcher::Options launch;
  ASSIGN_OR_RETURN(launch.program, OwnProgramPath());
  launch.run = options.run;
  launch.task_flags = flags.of_tasks;
  launch.connect = [&roles, &options](const std::string& address) {
    return roles.connect_chief(address, options.credentials);
  };
  launch.file_system = options.file_system;
  launch.shutdown = options.shutdown;
  launch.progress = options.progress;
  launch.metrics_address = flags.metrics_address;
  launch.places = flags.places.get();
  launch.newest_checkpoint = flags.newest_checkpoint;
  launch.checkpoints_wanted = &flags.checkpoints_wanted;
  launch.stop_timeout = ComputeStopTimes(options.run).chief_exit;
  if (!options.run.program().file().empty()) {
    // A worker waits for its program, and ends within a few seconds after it.
    launch.end_timeout =
        std::max(launch.end_timeout, ComputeStopTimes(options.run).drain + kWorkerEnds);
    launch.program_timeout = kProgramAfterRun + kWorkerEnds;
  }
  Launcher launcher(std::move(launch));
  absl::Status status = launcher.Run();
  *checkpoint_failure = launcher.checkpoint_failure();
  return status;
}

// Refuses a --max_steps below the steps that a run has made, unless its run file says the same.
absl::Status CheckMaxSteps(FileSystem* file_system, const v1::RunConfig& run) {
  const absl::StatusOr<Summary> summary = ReadSummary(file_system, run.out());
  if (!summary.ok() || run.max_steps() == 0 || summary->steps <= run.max_steps()) {
    return absl::OkStatus();
  }
  const absl::StatusOr<v1::RunConfig> before =
      LoadRunConfig(absl::StrCat(run.out(), "/run.textproto"));
  if (before.ok() && before->max_steps() == run.max_steps()) return absl::OkStatus();
  return InvalidField("--max_steps", absl::StrCat(run.max_steps(), " is below the ", summary->steps,
                                                  " steps that this run has made, so nothing was "
                                                  "trained; to train on, name a higher number"));
}

void PrintFinished(FileSystem* file_system, const v1::RunConfig& run, const std::string& command) {
  std::printf("This run had already finished.\n");
  const absl::StatusOr<Summary> summary = ReadSummary(file_system, run.out());
  if (summary.ok()) {
    PrintSummary(*summary, run, command);
  } else {
    std::printf("To train on, raise %s.\n", run.num_epochs() == 0 ? "--max_steps"
                                            : run.max_steps() == 0
                                                ? "--num_epochs"
                                                : "--num_epochs and --max_steps");
  }
}

// Returns whether the error means that the run could not begin, because its configuration or files
// do not fit. Other errors come from a run that has begun.
bool WasRefused(const absl::Status& status) {
  const int code = ToExitCode(status);
  return code == kExitBadFlags || code == kExitBadData || code == kExitBadConfig;
}

// Prints the result. Writes summary.json if the run failed and its chief could not write it.
void Conclude(const absl::Status& status, const std::string& summary_before, const LastShown& shown,
              const v1::RunConfig& run, const std::string& command, FileSystem* file_system) {
  const std::string& out = run.out();
  const bool by_chief = SummaryText(file_system, out) != summary_before;
  if (!by_chief && status.ok()) return PrintFinished(file_system, run, command);
  absl::StatusOr<Summary> summary = ReadSummary(file_system, out);
  const auto first_step = by_chief && summary.ok() ? summary->first_step : std::nullopt;
  std::fputs(HowToContinue(status.message(), run, command, first_step, file_system).c_str(),
             stdout);
  // This start has made no step, and the summary is that of an earlier one.
  if (!by_chief && !summary_before.empty() && WasRefused(status)) return;
  bool disk_failed = !shown.checkpoint_failure.empty();
  if (!by_chief) {
    // Written here if it can be: the disk may be full.
    summary = SummaryFromFiles(status, shown, out, file_system);
    if (absl::Status saved = WriteSummary(file_system, out, *summary); !saved.ok()) {
      LOG(WARNING) << "summary.json could not be written status=" << saved;
      disk_failed = true;
    }
  }
  if (!summary.ok()) return;
  // A run may finish although a task then does not end.
  if (status.ok() || absl::IsCancelled(status) || summary->status == "finished") {
    PrintSummary(*summary, run, command);
  } else if (absl::IsUnavailable(status) || (disk_failed && !WasRefused(status))) {
    PrintHowToResume(*summary, run, command);
  }
}

// Returns the run without its devices, which this machine need not have: each host checks its own.
v1::RunConfig WithoutDevices(v1::RunConfig run) {
  v1::DeploymentOptions* deployment = run.mutable_deployment();
  deployment->clear_devices();
  deployment->set_clone_on_cpu(true);
  deployment->set_allow_soft_placement(true);
  deployment->set_log_device_placement(false);
  return run;
}

absl::StatusOr<PreflightCheck> Check(const TrainRoles& roles, const v1::RunConfig& wanted,
                                     FileSystem* file_system, const ShutdownNotification& shutdown,
                                     bool runs_here, const v1::WorkerProgram* asked) {
  ASSIGN_OR_RETURN(
      PreflightCheck check,
      roles.check_run(runs_here ? wanted : WithoutDevices(wanted), file_system, shutdown, asked));
  *check.run.mutable_deployment() = wanted.deployment();
  // The last worker takes the highest numbers. Compute programs may share GPUs.
  const v1::DeploymentOptions& deployment = wanted.deployment();
  LocalWorker last;
  last.index = deployment.num_replicas() - 1;
  if (wanted.program().file().empty()) {
    RETURN_IF_ERROR(DevicesOfWorker(deployment, last, GpusToShare(roles)).status());
  }
  // Otherwise the workers say it, and the launcher shows that.
  if (runs_here && deployment.worker_binary().empty() && wanted.program().file().empty() &&
      roles.describe_gpus != nullptr) {
    check.notes.insert(check.notes.begin(), roles.describe_gpus(deployment));
  }
  return check;
}

// Trains a run that CheckBeforeStart has found to fit its directory. Prints the notes of that check
// once the directory is there.
absl::Status TrainChecked(const TrainRoles& roles, const TaskOptions& options,
                          const TrainFlags& flags, const std::vector<std::string>& notes,
                          HeldRunDirectory* directory) {
  const v1::RunConfig& run = options.run;
  FileSystem* const files = options.file_system;
  const std::string run_file = absl::StrCat(run.out(), "/run.textproto");
  const absl::StatusOr<std::string> run_before = ReadFile(*files, run_file);
  const std::string summary_before = SummaryText(files, run.out());
  RETURN_IF_ERROR(directory->Prepare(run));
  for (const std::string& note : notes) options.progress->Print(note);
  if (!flags.ignored.empty()) options.progress->Print(flags.ignored);
  if (flags.follows_program) {
    const absl::Status kept = KeepDeclaredSettings(files, run, flags.asked->settings());
    if (!kept.ok()) LOG(WARNING) << "program.textproto could not be written: " << kept;
  }
  LastShown shown;
  absl::Status status;
  if (flags.places != nullptr) status = flags.places->Prepare(files, *options.shutdown);
  if (status.ok()) {
    options.progress->Print(Describe(run));
    std::optional<OutputPrinter> output;
    if (!run.program().file().empty()) {
      output.emplace(files, absl::StrCat(run.out(), "/logs/program-0.out"), options.progress);
    }
    status = NumPsProcesses(run) == 0
                 ? RunInThisProcess(roles, options, flags)
                 : RunAsProcesses(roles, options, flags, &shown.checkpoint_failure);
  }
  shown.step = options.progress->step();
  options.progress->Finish();
  if (WasRefused(status) && !IsDivergence(status.message()) && run_before.ok() &&
      !summary_before.empty() && SummaryText(files, run.out()) == summary_before) {
    // Refused: the directory's run stays described as it was.
    const absl::Status restored = WriteAtomically(*files, run_file, *run_before);
    if (!restored.ok())
      LOG(WARNING) << "the previous run.textproto could not be restored: " << restored;
  }
  Conclude(status, summary_before, shown, run, flags.command, files);
  return status;
}

absl::Status Train(const TrainRoles& roles, const v1::RunConfig& wanted,
                   ShutdownNotification* shutdown, TrainFlags* flags) {
  const RealClock clock;
  const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
  HeldRunDirectory directory(wanted.out(), file_system.get());
  RETURN_IF_ERROR(directory.Hold());
  ASSIGN_OR_RETURN(const PreflightCheck check,
                   Check(roles, wanted, file_system.get(), *shutdown,
                         /*runs_here=*/!roles.place, flags->asked ? &*flags->asked : nullptr));
  if (check.finished) {
    RETURN_IF_ERROR(CheckMaxSteps(file_system.get(), wanted));
    if (!flags->ignored.empty()) std::fprintf(stderr, "%s\n", flags->ignored.c_str());
    PrintFinished(file_system.get(), wanted, flags->command);
    return absl::OkStatus();
  }
  if (shutdown->requested()) return absl::CancelledError("stopped before the run had started");
  ProgressOptions bar = ProgressOptionsFor(STDERR_FILENO, roles.no_color);
  bar.log_every = check.run.log_every();
  ProgressReporter progress(std::move(bar), &clock);
  flags->newest_checkpoint = check.newest_checkpoint;
  TaskOptions options;
  options.run = check.run;
  options.clock = &clock;
  options.file_system = file_system.get();
  options.shutdown = shutdown;
  options.progress = &progress;
  options.was_checked = true;
  options.credentials = flags->credentials.get();
  return TrainChecked(roles, options, *flags, check.notes, &directory);
}

// Returns TrainFlags::command, in a form that a shell accepts in any directory.
std::string CommandWithoutRun(const TrainRoles& roles, const TaskFlags& task,
                              const std::string& directory,
                              const std::vector<std::string>& security) {
  const auto absolute = [&directory](const std::string& path) {
    return AsShellWord(absl::StartsWith(path, "/") ? path : absl::StrCat(directory, "/", path));
  };
  std::string command = absl::StrCat(roles.command, roles.place ? " launch" : " train");
  if (roles.place) absl::StrAppend(&command, " --hosts=", absolute(task.hosts_file));
  if (!task.ssh_config.empty())
    absl::StrAppend(&command, " --ssh_config=", absolute(task.ssh_config));
  for (const std::string& flag : security) absl::StrAppend(&command, " ", AsShellWord(flag));
  return command;
}

// Starts the run's compute program once, with the run as far as it is known. Prints that it is
// waited for, if it starts slowly.
absl::StatusOr<v1::WorkerProgram> AskForSettings(const TrainRoles& roles, CommandLine line,
                                                 const std::string& directory) {
  if (line.run.max_steps() == 0 && line.run.num_epochs() == 0) line.run.set_num_epochs(1);
  ASSIGN_OR_RETURN(const v1::RunConfig run,
                   ResolveTrainRun(line, directory, absl::Now(), getpid()));
  Notification is_answered;
  std::thread waits([&] {
    if (is_answered.WaitFor(roles.usual_program_start)) return;
    std::fprintf(stderr, "waiting for %s to start and declare its model\n",
                 ProgramName(run).c_str());
  });
  absl::StatusOr<v1::WorkerProgram> asked = roles.ask_program(run);
  is_answered.Notify();
  waits.join();
  return asked;
}

absl::StatusOr<v1::RunConfig> ResolveHere(const TrainRoles& roles, const CommandLine& line,
                                          TrainFlags* flags) {
  char directory[4096];
  if (getcwd(directory, sizeof(directory)) == nullptr) {
    return absl::FailedPreconditionError("the working directory does not exist; change to another");
  }
  if (roles.place && line.task.hosts_file.empty()) {
    return InvalidField("--hosts", "is missing; name the file of the hosts");
  }
  ASSIGN_OR_RETURN(flags->credentials, ReadOperatorCredentials(line.task, absl::Now()));
  flags->of_tasks = SecurityFlags(line.task, directory);
  flags->command = CommandWithoutRun(roles, line.task, directory, flags->of_tasks);
  flags->metrics_address = line.task.metrics_address;
  flags->may_show_pages = MayShowPages(line.task);
  CommandLine complete = line;
  if (!line.run.program().file().empty()) {
    ASSIGN_OR_RETURN(flags->asked, AskForSettings(roles, line, directory));
    complete.run = WithSettings(line.run, flags->asked->settings());
  }
  ASSIGN_OR_RETURN(v1::RunConfig run, ResolveTrainRun(complete, directory, absl::Now(), getpid()));
  if (flags->asked.has_value()) {
    const std::unique_ptr<FileSystem> file_system = NewPosixFileSystem();
    flags->follows_program = !IsOwnRunFile(line.task.run_file, run);
    if (!flags->follows_program) {
      flags->ignored = FindIgnoredSettings(file_system.get(), run, flags->asked->settings(),
                                           {flags->command, static_cast<bool>(roles.place)});
    }
  }
  if (roles.place) {
    ASSIGN_OR_RETURN(flags->places, roles.place(line.task, run, directory));
  }
  return run;
}

}  // namespace

absl::StatusOr<v1::RunConfig> ResolveTrainRun(const CommandLine& line,
                                              const std::string& working_directory, absl::Time now,
                                              int process_id) {
  if (!line.arguments.empty()) {
    const std::string& first = line.arguments[0];
    const bool has_model = !line.task.run_file.empty() || !line.run.program().file().empty();
    const char* const flag = absl::EndsWith(first, ".py") ? "--program=" : "--run=";
    return InvalidField(first,
                        absl::StrCat("is not a flag; ",
                                     has_model ? "this command takes only flags, see --help"
                                               : absl::StrCat("did you mean ", flag, first, "?")));
  }
  RETURN_IF_ERROR(CheckRunGiven(line));
  v1::RunConfig run = line.run;
  ResolveDefaults(kTrainTaskCounts, &run);
  RETURN_IF_ERROR(ValidateRunConfig(run));
  RETURN_IF_ERROR(CheckMetricsAddress(line.task.metrics_address, MayShowPages(line.task)));
  if (run.out().empty()) {
    // The process keeps runs apart that start in the same second.
    run.set_out(absl::StrCat("runs/", run.name(), "-",
                             absl::FormatTime("%Y%m%d-%H%M%S", now, absl::LocalTimeZone()), "-",
                             process_id));
  }
  MakePathsAbsolute(working_directory, &run);
  return run;
}

int TrainMain(const TrainRoles& roles, absl::Span<const std::string> args) {
  ShutdownNotification shutdown;
  const auto end = [&](const absl::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "shoal %s: %s\n", roles.place ? "launch" : "train",
                   std::string(status.message()).c_str());
    }
    return ToExitCode(status, shutdown);
  };
  const FlagScope scope = roles.place ? kScopeLaunch : kScopeTrain;
  const absl::StatusOr<CommandLine> line = ParseCommandLine(scope, args);
  if (!line.ok()) return end(line.status());
  if (line->help) {
    std::fputs((roles.place ? LaunchHelp() : TrainHelp()).c_str(), stdout);
    return kExitDone;
  }
  TrainFlags flags;
  const absl::StatusOr<v1::RunConfig> run = ResolveHere(roles, *line, &flags);
  if (!run.ok()) return end(run.status());
  RaiseFileLimit();
  SignalOptions signals;
  // The checkpoint may take its time; the second signal ends the launcher, and with it its
  // children.
  signals.hard_exit_after = absl::InfiniteDuration();
  signals.on_second = [&](int signal) { BreakOff(signal, *run, flags.command); };
  shutdown.OnAsked(AskedFor::kCheckpoint, [&flags] { ++flags.checkpoints_wanted; });
  const absl::StatusOr<std::unique_ptr<SignalWatcher>> watcher =
      SignalWatcher::Start(signals, &shutdown);
  if (!watcher.ok()) return end(watcher.status());
  return end(Train(roles, *run, &shutdown, &flags));
}

}  // namespace shoal
