#include "runtime/process/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/passing_errors.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/report_address.h"

extern char** environ;

namespace shoal {
namespace {

// The descriptor of the child's pipe for its address.
constexpr int kReportFd = 3;

constexpr absl::Duration kEndOfKilled = absl::Seconds(10);

// posix_spawn's two settings objects, released on every path.
class SpawnSettings {
 public:
  SpawnSettings() {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // Own group, no blocked signals, default dispositions, nothing to read.
  void SetUp(const std::string& log_file, int report_fd) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!log_file.empty()) {
      posix_spawn_file_actions_addopen(&actions_, STDOUT_FILENO, log_file.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0644);
      posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    }
    if (report_fd >= 0) posix_spawn_file_actions_adddup2(&actions_, report_fd, kReportFd);
  }

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

absl::StatusOr<pid_t> Spawn(const ChildOptions& options, int report_fd) {
  std::vector<std::string> args = options.args;
  args.push_back(absl::StrCat("--parent_pid=", getpid()));
  if (report_fd >= 0) args.push_back(absl::StrCat("--report_fd=", kReportFd));
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  SpawnSettings settings;
  settings.SetUp(options.log_file, report_fd);
  pid_t pid = 0;
  const int error =
      posix_spawn(&pid, argv[0], settings.actions(), settings.attributes(), argv.data(), environ);
  if (error == 0) return pid;
  return StatusOfErrno(
      error, absl::StrCat(options.name, ": cannot start ", args[0],
                          options.log_file.empty() ? "" : " with log file ", options.log_file));
}

}  // namespace

ChildExit ChildExit::FromStatus(int status) {
  if (WIFSIGNALED(status)) return ChildExit{/*by_signal=*/true, WTERMSIG(status)};
  return ChildExit{/*by_signal=*/false, WEXITSTATUS(status)};
}

ChildExit ChildExit::Unknown() {
  return ChildExit{/*by_signal=*/false, kExitInternalError, /*is_known=*/false};
}

bool ChildExit::crashed() const {
  return by_signal && (number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
                       number == SIGILL || number == SIGABRT);
}

bool ChildExit::is_permanent() const { return !by_signal && IsPermanentExitCode(number); }

absl::StatusCode ChildExit::status_code() const {
  if (by_signal) return crashed() ? absl::StatusCode::kInternal : absl::StatusCode::kUnavailable;
  switch (number) {
    case kExitDone:
      return absl::StatusCode::kOk;
    case kExitUsage:
    case kExitBadFlags:
      return absl::StatusCode::kInvalidArgument;
    case kExitBadData:
      return absl::StatusCode::kDataLoss;
    case kExitBadConfig:
      return absl::StatusCode::kFailedPrecondition;
    case kExitRestartMe:
      return absl::StatusCode::kUnavailable;
    case kExitInterrupted:
    case kExitTerminated:
      return absl::StatusCode::kCancelled;
    default:
      return absl::StatusCode::kInternal;
  }
}

std::string ChildExit::Describe() const {
  if (!is_known) return "it is not known how it ended, because SIGCHLD was ignored";
  if (by_signal) {
    const char* name = sigabbrev_np(number);
    return name != nullptr ? absl::StrCat("killed by SIG", name)
                           : absl::StrCat("killed by signal ", number);
  }
  if (number == 0) return "done";
  return absl::StrCat("exit code ", number, " (", DescribeExitCode(number), ")");
}

absl::StatusOr<std::unique_ptr<Child>> Child::Start(const ChildOptions& options) {
  UniqueFd read_end, write_end;
  if (options.reports_address) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      return StatusOfErrno(errno, absl::StrCat(options.name, ": cannot make a pipe"));
    }
    read_end.Reset(ends[0]);
    // dup2 onto itself would leave the close-on-exec flag: keep the pipe away from kReportFd.
    write_end.Reset(fcntl(ends[1], F_DUPFD_CLOEXEC, kReportFd + 1));
    close(ends[1]);
  }
  absl::StatusOr<pid_t> pid = Spawn(options, write_end.get());
  if (!pid.ok()) return pid.status();
  return std::unique_ptr<Child>(new Child(options.name, *pid, std::move(read_end)));
}

Child::~Child() {
  if (Poll().has_value()) return;
  Kill();
  WaitFor(PatienceAfterKill());
}

absl::StatusOr<std::string> Child::WaitForAddress(absl::Duration timeout) {
  absl::StatusOr<std::string> address = ReadReportedAddress(report_.get(), timeout);
  if (address.ok()) return address;
  std::string what(address.status().message());
  if (const std::optional<ChildExit> exit = WaitFor(absl::Milliseconds(200))) {
    absl::StrAppend(&what, ": ", exit->Describe());
  }
  return absl::Status(address.status().code(), absl::StrCat(name_, " ", what));
}

std::optional<ChildExit> Child::Poll() { return WaitFor(absl::ZeroDuration()); }

std::optional<ChildExit> Child::WaitFor(absl::Duration timeout) {
  if (exit_.has_value()) return exit_;
  const absl::Time end = clock_.Now() + timeout;
  absl::Duration pause = absl::Milliseconds(1);
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, timeout == absl::InfiniteDuration() ? 0 : WNOHANG);
    if (ended == pid_) return exit_ = ChildExit::FromStatus(status);
    if (ended < 0 && errno == ECHILD) return exit_ = ChildExit::Unknown();
    const absl::Duration left = end - clock_.Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    absl::SleepFor(std::min(pause, left));
    pause = std::min(pause * 2, absl::Milliseconds(20));
  }
}

void Child::Signal(int signal) {
  // The process number cannot be reused between the child's end and waitpid.
  if (!exit_.has_value()) kill(pid_, signal);
}

void Child::Kill() {
  if (exit_.has_value()) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  killed_ = std::min(killed_, clock_.Now());
}

absl::Duration Child::PatienceAfterKill() const {
  return std::max(killed_ + kEndOfKilled - clock_.Now(), absl::ZeroDuration());
}

void KeepEndsOfChildren() { signal(SIGCHLD, SIG_DFL); }

void DieWithParent(pid_t parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent_pid) _exit(kExitTerminated);
}

absl::StatusOr<std::string> OwnProgramPath() {
  char path[4096];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof(path));
  if (size <= 0 || size == static_cast<ssize_t>(sizeof(path))) {
    return absl::InternalError(absl::StrCat("/proc/self/exe: ", std::strerror(errno)));
  }
  return std::string(path, static_cast<size_t>(size));
}

}  // namespace shoal
