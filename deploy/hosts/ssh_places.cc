#include "deploy/hosts/ssh_places.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/system_random.h"
#include "deploy/hosts/check_program_command.h"
#include "deploy/hosts/ssh_client.h"
#include "runtime/cluster/address.h"
#include "runtime/config/flags.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/stop_times.h"
#include "runtime/config/text_proto.h"
#include "runtime/process/child.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

// Quotes the text as one word of a POSIX shell.
std::string Quoted(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string ListenAddressAt(const HostLine& host) {
  // An IPv6 number needs brackets.
  return absl::StrContains(host.address, ':') ? absl::StrCat("[", host.address, "]:0")
                                              : host.address + ":0";
}

// Checks the file like ssh, before ssh is started for each task.
absl::Status CheckSshConfig(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  const std::unique_ptr<FileSystem> disk = NewPosixFileSystem();
  absl::Status status = disk->OpenForRead(path).status();
  if (status.ok() && disk->GetInfo(path).value_or(FileInfo()).is_directory) {
    status = absl::NotFoundError(absl::StrCat(path, " is a directory"));
  }
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("--ssh_config: ", status.message(),
                                   "; name a configuration of ssh, /dev/null for none"));
}

absl::Status CheckInsecure(const TaskFlags& flags, const std::vector<HostLine>& hosts) {
  if (flags.insecure || !flags.tls_cert.empty()) return absl::OkStatus();
  for (const HostLine& host : hosts) {
    if (IsLoopbackAddress(ListenAddressAt(host))) continue;
    return absl::PermissionDeniedError(absl::StrCat(
        "--hosts: tasks on ", host.name,
        " can be reached by other machines, and connections are not encrypted; give --tls_cert, "
        "--tls_key and --tls_ca, or --insecure on a trusted network"));
  }
  return absl::OkStatus();
}

absl::Status CheckMetricsReach(const std::string& metrics_address,
                               const std::vector<HostLine>& hosts) {
  if (metrics_address.empty() || !IsLoopbackAddress(metrics_address)) return absl::OkStatus();
  for (const HostLine& host : hosts) {
    if (IsLoopbackAddress(ListenAddressAt(host))) continue;
    return InvalidField(
        "--metrics_address",
        absl::StrCat("is ", metrics_address, ", which only the host itself reaches, and ",
                     host.name,
                     " is another machine; name the chief's host, or 0.0.0.0 for all "
                     "addresses of every host"));
  }
  return absl::OkStatus();
}

constexpr absl::Duration kTick = absl::Milliseconds(50);

// The check of a host, while it runs.
struct HostCheck {
  std::string host;
  std::string log;
  std::unique_ptr<Child> child;
};

// Returns an error that names the host and has the last line that the check wrote.
absl::Status GetResult(const HostCheck& check, const ChildExit& exit, FileSystem* files) {
  if (exit.ok()) return absl::OkStatus();
  std::string words;
  const absl::StatusOr<std::string> log = ReadFile(*files, check.log);
  for (absl::string_view line : absl::StrSplit(log.ok() ? *log : "", '\n')) {
    if (absl::ConsumePrefix(&line, "shoal worker: ")) words = std::string(line);
  }
  if (words.empty()) words = absl::StrCat("the check of the program ended: ", exit.Describe());
  const bool names_host = absl::StartsWith(words, "host ");
  return absl::Status(exit.status_code(),
                      absl::StrCat(names_host ? "" : absl::StrCat("host ", check.host, ": "), words,
                                   "; see ", check.log));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TaskPlaces>> SshPlaces::Create(
    const TaskFlags& flags, const v1::RunConfig& run, const std::string& working_directory) {
  if (NumPsProcesses(run) == 0) {
    return InvalidField("--num_ps_tasks", "is 0, which is one process; use `shoal train`");
  }
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile("--hosts", flags.hosts_file));
  ASSIGN_OR_RETURN(std::vector<HostLine> hosts, ParseHostFile(text, flags.hosts_file));
  RETURN_IF_ERROR(CheckInsecure(flags, hosts));
  RETURN_IF_ERROR(CheckSshConfig(flags.ssh_config));
  ASSIGN_OR_RETURN(Placement placement,
                   Placement::Create(hosts, NumPsProcesses(run), run.deployment().num_replicas()));
  RETURN_IF_ERROR(CheckMetricsReach(flags.metrics_address, hosts));
  Options options;
  ASSIGN_OR_RETURN(options.program, OwnProgramPath());
  options.ssh = SshClient();
  options.ssh_config = flags.ssh_config;
  options.directory = working_directory;
  options.launch_file = absl::StrCat(run.out(), "/logs/launch");
  options.launch = SystemRandomHex();
  options.grace = ComputeStopTimes(run).drain;
  options.run_file = JoinPath(run.out(), "run.textproto");
  if (!run.program().file().empty()) {
    ASSIGN_OR_RETURN(options.program_hash, HashOfProgram(run, NewPosixFileSystem().get()));
  }
  return std::make_unique<SshPlaces>(std::move(options), std::move(hosts), std::move(placement));
}

absl::Status SshPlaces::Prepare(FileSystem* file_system,
                                const ShutdownNotification& shutdown) const {
  RETURN_IF_ERROR(WriteAtomically(*file_system, options_.launch_file, options_.launch));
  return options_.program_hash.empty() ? absl::OkStatus() : CheckProgram(file_system, shutdown);
}

absl::Status SshPlaces::CheckProgram(FileSystem* file_system,
                                     const ShutdownNotification& shutdown) const {
  std::vector<HostCheck> checks;
  for (uint32_t worker = 0; worker < placement_.num_workers(); ++worker) {
    if (placement_.LocalIndexOf(worker) != 0) continue;  // Another worker of its host is the first.
    const TaskId task{Job::kWorker, worker};
    HostCheck check;
    check.host = hosts_[placement_.FindHost(task)].name;
    ChildOptions child;
    child.name = task.ToString();
    child.log_file = check.log = absl::StrCat(options_.launch_file, "-check-", worker, ".log");
    child.args = Command(task, /*again=*/false, check.log,
                         {options_.program, "check_program", "--run=" + options_.run_file,
                          "--program_hash=" + options_.program_hash});
    ASSIGN_OR_RETURN(check.child, Child::Start(child));
    checks.push_back(std::move(check));
  }
  absl::Status result;
  for (HostCheck& check : checks) {
    std::optional<ChildExit> exit;
    while (!(exit = check.child->WaitFor(kTick)).has_value()) {
      if (shutdown.requested()) return absl::CancelledError("stopped before the run had started");
    }
    if (result.ok()) result = GetResult(check, *exit, file_system);
    if (exit->ok()) file_system->Remove(check.log).IgnoreError();
  }
  return result;
}

std::string SshPlaces::ListenAddress(TaskId task) const {
  return ListenAddressAt(hosts_[placement_.FindHost(task)]);
}

std::vector<std::string> SshPlaces::Command(TaskId task, bool again, const std::string& log_file,
                                            const std::vector<std::string>& args) const {
  const HostLine& host = hosts_[placement_.FindHost(task)];
  std::vector<std::string> far = {options_.program,
                                  "attend",
                                  "--name=" + task.ToString(),
                                  "--log=" + log_file,
                                  "--launch_file=" + options_.launch_file,
                                  "--launch=" + options_.launch,
                                  absl::StrCat("--grace=", absl::ToInt64Seconds(options_.grace)),
                                  "--"};
  far.insert(far.end(), args.begin(), args.end());
  for (std::string& word : far) word = Quoted(word);

  std::vector<std::string> near = {options_.program, "reach", "--name=" + task.ToString(),
                                   "--host=" + host.name};
  if (again) near.push_back("--again");
  near.push_back("--");
  near.insert(near.end(), options_.ssh.begin(), options_.ssh.end());
  if (!options_.ssh_config.empty()) near.insert(near.end(), {"-F", options_.ssh_config});
  if (!host.user.empty()) near.insert(near.end(), {"-l", host.user});
  if (host.port != 0) near.insert(near.end(), {"-p", absl::StrCat(host.port)});
  near.push_back(host.name);
  near.push_back(
      absl::StrCat("cd ", Quoted(options_.directory), " && exec ", absl::StrJoin(far, " ")));
  return near;
}

std::string SshPlaces::Describe(TaskId task) const {
  return absl::StrCat("on ", hosts_[placement_.FindHost(task)].name);
}

}  // namespace shoal
