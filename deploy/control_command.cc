#include "deploy/control_command.h"

#include <sys/stat.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "deploy/launch/divergence.h"
#include "deploy/launch/reconstructed_summary.h"
#include "deploy/launch/result_printer.h"
#include "deploy/operator_requests.h"
#include "deploy/status_report.h"
#include "runtime/cluster/address.h"
#include "runtime/cluster/cluster_spec.h"
#include "runtime/config/defaults.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/summary.h"
#include "runtime/process/directory_outcome.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/run_lock.h"
#include "runtime/rpc/refused_connection.h"
#include "runtime/task/task_credentials.h"
#include "runtime/tls/credentials.h"

namespace shoal {
namespace {

constexpr char kStatusHelp[] =
    "usage: shoal status ADDRESS|DIR [--json]\n"
    "\n"
    "Prints the tasks of a run, which of them are slow, what the run waits for, and its progress.\n"
    "ADDRESS is the chief's. DIR is a run's directory, whose cluster.textproto has the address; a\n"
    "chief that runs another directory is refused. If the run is not running, the command prints\n"
    "how it ended, or the newest checkpoint and the command that resumes it. It changes nothing.\n"
    "\n";
constexpr char kCheckpointHelp[] =
    "usage: shoal checkpoint ADDRESS|DIR [--timeout=SECONDS]\n"
    "\n"
    "Asks the run for a checkpoint, waits until it is durable, and prints its path. Training\n"
    "continues.\n"
    "\n";
constexpr char kStopHelp[] =
    "usage: shoal stop ADDRESS|DIR [--timeout=SECONDS]\n"
    "\n"
    "Asks the run to make a checkpoint and end, as Ctrl-C does, waits until it is over, and\n"
    "prints the checkpoint to resume from. The run itself ends with exit code 143.\n"
    "\n";
constexpr char kHealthHelp[] =
    "usage: shoal health ADDRESS|DIR [--service=ps|chief|worker] [--timeout=SECONDS]\n"
    "\n"
    "Exits with 0 if a task is alive, with --service if it can do its work, for probes that run a\n"
    "command. With DIR, a run's directory, it asks the chief (for --service=ps name the ps's\n"
    "address), and a run that is not running gives 0 if it has finished, else 78 and the command\n"
    "that resumes it. Uses the standard gRPC health service. A worker has it only with an address\n"
    "in the cluster or a --listen_address; for others use /healthz or /readyz of\n"
    "--metrics_address.\n"
    "\n";

// The properties of one of these commands.
struct Command {
  const char* name;
  FlagScope scope;
  const char* help;
  // Prints the result. `given` is the argument as the user wrote it.
  std::function<absl::Status(const std::string& given, const TaskFlags& flags)> run;
};

int RunControlCommand(const Command& command, absl::Span<const std::string> args) {
  const auto end = [&command](const absl::Status& status) {
    if (!status.ok()) {
      std::fprintf(stderr, "shoal %s: %s\n", command.name, std::string(status.message()).c_str());
    }
    return ToExitCode(status);
  };
  const absl::StatusOr<CommandLine> line = ParseCommandLine(command.scope, args);
  if (!line.ok()) return end(line.status());
  if (line->help) {
    std::printf("%s%s", command.help, FlagHelp(command.scope).c_str());
    return kExitDone;
  }
  if (line->arguments.size() != 1) {
    return end(InvalidField("ADDRESS|DIR",
                            line->arguments.empty()
                                ? "is missing; name the chief's host:port or a run's directory"
                                : "is given more than once; name one"));
  }
  return end(command.run(line->arguments[0], line->task));
}

bool IsDirectory(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool Exists(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0;
}

absl::Status CheckNoPath(const std::string& given) {
  if (IsUnixAddress(given)) return absl::OkStatus();
  const absl::string_view remedy = "name a run's directory, or the chief's host:port";
  if (Exists(given) || absl::StrContains(given, "/")) {
    return absl::NotFoundError(Exists(given)
                                   ? absl::StrCat(given, " is not a directory; ", remedy)
                                   : absl::StrCat("there is no directory ", given, "; ", remedy));
  }
  if (absl::StrContains(given, ":") || given.empty()) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no directory ", given,
                                          ", and as an address it has no port; ", remedy));
}

// Calls `use` with the chief at the address, or with that of the run in the directory.
absl::Status AskChief(const ControlLinks& links, const std::string& given, const TaskFlags& flags,
                      const std::function<absl::Status(const ChiefContact&)>& use) {
  ASSIGN_OR_RETURN(const std::string address, FindChief(given));
  ASSIGN_OR_RETURN(const std::unique_ptr<Credentials> credentials,
                   ReadOperatorCredentials(flags, absl::Now()));
  const std::unique_ptr<ChiefClient> chief = links.connect_chief(address, credentials.get());
  const RealClock clock;
  ChiefContact control;
  control.chief = chief.get();
  control.clock = &clock;
  control.address = address;
  control.secure = credentials != nullptr;
  if (IsDirectory(given)) control.run_directory = given;
  if (flags.timeout_seconds.has_value()) control.timeout = absl::Seconds(*flags.timeout_seconds);
  return use(control);
}

bool IsRun(const std::string& directory) {
  return Exists(absl::StrCat(directory, "/run.textproto"));
}

// Returns whether all tasks of the run were on this machine.
bool WasHere(const std::string& directory) {
  const absl::StatusOr<ClusterSpec> cluster =
      ClusterSpec::FromFile(absl::StrCat(directory, "/cluster.textproto"));
  return !cluster.ok() || (cluster->chief().empty() && cluster->workers().empty()) ||
         IsLoopbackAddress(cluster->chief());
}

// Returns the command that resumes the run in the directory. If not all tasks were on this machine,
// only the user knows the hosts or the scheduler, so it returns a description instead.
std::string HowToResume(const std::string& program, const std::string& directory) {
  return WasHere(directory)
             ? absl::StrCat(program,
                            " train --run=", AsShellWord(absl::StrCat(directory, "/run.textproto")))
             : absl::StrCat("the command that started it, with --out=", AsShellWord(directory));
}

// Returns the lines with which the launcher ended a run that diverged; empty for other runs, and if
// only the user knows its hosts or its scheduler.
std::string AfterDivergence(const std::string& program, const std::string& directory,
                            const Summary& summary) {
  if (!IsDivergence(summary.exit_reason) || !WasHere(directory)) return "";
  absl::StatusOr<v1::RunConfig> run = LoadRunConfig(absl::StrCat(directory, "/run.textproto"));
  if (!run.ok()) return "";
  run->set_out(directory);
  ResolveDefaults(TaskCounts(), &*run);
  return HowToContinue(summary.exit_reason, *run, absl::StrCat(program, " train"),
                       summary.first_step, NewPosixFileSystem().get());
}

// Returns whether no process of the run in the directory is left, as far as its locks tell.
bool IsDead(const std::string& directory) {
  return IsRun(directory) && !RunLock::IsHeld(directory, RunLock::Holder::kLauncher) &&
         !RunLock::IsHeld(directory, RunLock::Holder::kChief);
}

absl::Status NotRunning(const std::string& program, const std::string& given, bool json) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const Summary left = SummaryFromFiles(absl::OkStatus(), {}, given, files.get());
  std::string holder = RunLock::ReadHolder(given, RunLock::Holder::kLauncher);
  if (holder.empty()) holder = RunLock::ReadHolder(given, RunLock::Holder::kChief);
  const std::string text = NotRunningText(given, left, holder, HowToResume(program, given));
  if (json) std::puts(NotRunningJson(given, left, text).c_str());
  return absl::FailedPreconditionError(text);
}

// Returns the result of `ask`, which asks a task of the run. If none answers because the run in the
// directory is over, calls `over`; if its processes are gone, returns how to resume it.
absl::Status OrHowItEnded(const ControlLinks& links, const std::string& given, bool json,
                          const std::function<absl::Status()>& ask,
                          const std::function<absl::Status(const Summary&)>& over) {
  // Its chief may begin to serve, and say where, while the one of an earlier start is asked.
  const bool was_starting = IsDirectory(given) && IsStarting(given);
  const absl::Status asked = ask();
  const bool may_be_over =
      absl::IsUnavailable(asked) || absl::IsNotFound(asked) || absl::IsFailedPrecondition(asked);
  if (!may_be_over || !IsDirectory(given)) return asked;
  const std::optional<Summary> summary = SummaryIfOver(given);
  if (summary.has_value()) return over(*summary);
  if (IsDead(given)) return NotRunning(links.program, given, json);
  if (!was_starting && !IsStarting(given)) return asked;
  return absl::UnavailableError(
      absl::StrCat(given,
                   ": the run is being started, and its chief does not serve yet: ask again "
                   "(if the start was killed: start it again)"));
}

// Calls `use` with the chief, or `over` if the run in the directory is over.
absl::Status WithChief(const ControlLinks& links, const std::string& given, const TaskFlags& flags,
                       const std::function<absl::Status(const ChiefContact&)>& use,
                       const std::function<absl::Status(const Summary&)>& over) {
  return OrHowItEnded(
      links, given, flags.json, [&] { return AskChief(links, given, flags, use); }, over);
}

// Returns an error for a command that makes no sense for a run that is over.
std::function<absl::Status(const Summary&)> NothingLeft(const ControlLinks& links,
                                                        const std::string& given,
                                                        const char* what) {
  return [resume = HowToResume(links.program, given), given, what](const Summary& summary) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is nothing to ", what, ": ", OverText(given, summary, resume)));
  };
}

}  // namespace

absl::StatusOr<std::string> FindChief(const std::string& address_or_directory) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const bool is_directory, IsDirectory(*files, address_or_directory));
  if (!is_directory) {
    RETURN_IF_ERROR(CheckNoPath(address_or_directory));
    RETURN_IF_ERROR(CheckAddress("ADDRESS", address_or_directory));
    return address_or_directory;
  }
  const std::string file = absl::StrCat(address_or_directory, "/cluster.textproto");
  ASSIGN_OR_RETURN(const std::optional<FileInfo> found, FindFile(*files, file));
  if (!found.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(address_or_directory,
                     IsRun(address_or_directory)
                         ? " has no cluster.textproto yet; try again when its run has begun"
                         : " holds no run: it has no cluster.textproto; name a run's directory",
                     ", or the chief's host:port"));
  }
  ASSIGN_OR_RETURN(const ClusterSpec cluster, ClusterSpec::FromFile(file));
  if (!cluster.chief().empty()) return cluster.chief();
  // If the cluster has no chief, worker 0 hosts it.
  if (!cluster.workers().empty() && !cluster.workers()[0].empty()) return cluster.workers()[0];
  // "pid 7 on a"
  const std::string holder = RunLock::ReadHolder(address_or_directory, RunLock::Holder::kLauncher);
  return absl::FailedPreconditionError(
      absl::StrCat(file,
                   ": names no chief: a run in one process serves no address. SIGTERM or "
                   "Ctrl-C stops that process",
                   holder.empty() ? "" : " (", holder, holder.empty() ? "" : ")",
                   ", SIGUSR1 has it make a checkpoint, the pages of its --metrics_address say "
                   "what it does"));
}

int StatusMain(const ControlLinks& links, absl::Span<const std::string> args) {
  return RunControlCommand(
      {"status", kScopeStatus, kStatusHelp,
       [&](const std::string& given, const TaskFlags& flags) {
         const auto print = [&flags](const ChiefContact& control) -> absl::Status {
           ASSIGN_OR_RETURN(const v1::GetRunStatusResponse run, GetStatus(control));
           const std::string report =
               flags.json ? StatusJson(run, absl::Now()) : StatusText(run, absl::Now());
           std::fputs(report.c_str(), stdout);
           return absl::OkStatus();
         };
         return WithChief(links, given, flags, print, [&](const Summary& summary) {
           const std::string resume = HowToResume(links.program, given);
           std::puts(
               (flags.json ? OverJson(given, summary, resume) : OverText(given, summary, resume))
                   .c_str());
           if (!flags.json) {
             std::fputs(AfterDivergence(links.program, given, summary).c_str(), stdout);
           }
           return absl::OkStatus();
         });
       }},
      args);
}

int CheckpointMain(const ControlLinks& links, absl::Span<const std::string> args) {
  const auto make = [](const ChiefContact& control) -> absl::Status {
    ASSIGN_OR_RETURN(const DurableCheckpoint checkpoint, MakeCheckpoint(control));
    std::printf("%s\n", checkpoint.path.c_str());
    return absl::OkStatus();
  };
  return RunControlCommand({"checkpoint", kScopeSave, kCheckpointHelp,
                            [&](const std::string& given, const TaskFlags& flags) {
                              return WithChief(links, given, flags, make,
                                               NothingLeft(links, given, "save"));
                            }},
                           args);
}

int StopMain(const ControlLinks& links, absl::Span<const std::string> args) {
  const auto stop = [](const ChiefContact& control) -> absl::Status {
    ASSIGN_OR_RETURN(const DurableCheckpoint checkpoint, StopRun(control, "shoal stop"));
    if (checkpoint.path.empty()) {
      std::fputs("shoal stop: ended without a checkpoint: none was made\n", stderr);
    } else {
      std::printf("%s\n", checkpoint.path.c_str());
    }
    return absl::OkStatus();
  };
  return RunControlCommand({"stop", kScopeSave, kStopHelp,
                            [&](const std::string& given, const TaskFlags& flags) {
                              return WithChief(links, given, flags, stop,
                                               NothingLeft(links, given, "stop"));
                            }},
                           args);
}

namespace {

absl::Status CheckHealth(const ControlLinks& links, const std::string& given,
                         const TaskFlags& flags) {
  ASSIGN_OR_RETURN(const std::string address, FindChief(given));
  if (IsDirectory(given) && !flags.service.empty() && flags.service != "chief") {
    return absl::InvalidArgumentError(
        absl::StrCat("--service: is ", flags.service,
                     ", but with a run's directory the command asks the chief; name the ",
                     "address of the task, which is in ", given, "/cluster.textproto"));
  }
  const absl::Duration timeout =
      absl::Seconds(flags.timeout_seconds.value_or(kHealthTimeoutSeconds));
  ASSIGN_OR_RETURN(const std::unique_ptr<Credentials> credentials,
                   ReadOperatorCredentials(flags, absl::Now()));
  const absl::Status status =
      links.check_health(address, flags.service, timeout, credentials.get());
  if (status.ok()) {
    std::puts("serving");
    return status;
  }
  const RefusedConnection refused = FindRefusal(status, credentials != nullptr);
  if (!refused.why.empty()) return ExplainCall(status, address, credentials != nullptr);
  const std::string reason = ShortReason(status);
  if (reason == status.message()) {
    return absl::Status(status.code(), absl::StrCat(address, ": ", reason));
  }
  return absl::Status(status.code(), absl::StrCat(address, ": no task answers there (", reason,
                                                  "); correct the address, or start the task"));
}

}  // namespace

int HealthMain(const ControlLinks& links, absl::Span<const std::string> args) {
  return RunControlCommand(
      {"health", kScopeHealth, kHealthHelp,
       [&](const std::string& given, const TaskFlags& flags) {
         // The tasks of a finished run need no restart. Those of another run restart only together,
         // with the whole run.
         const auto over = [&](const Summary& summary) -> absl::Status {
           const std::string how = OverText(given, summary, HowToResume(links.program, given));
           if (summary.status != "finished") return absl::FailedPreconditionError(how);
           std::puts(how.c_str());
           return absl::OkStatus();
         };
         return OrHowItEnded(
             links, given, /*json=*/false, [&] { return CheckHealth(links, given, flags); }, over);
       }},
      args);
}

}  // namespace shoal
