#include "worker/program/program_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/passing_errors.h"
#include "base/status_macros.h"

extern char** environ;

namespace shoal {
namespace {

// The descriptors of the program.
constexpr int kSocketFd = 3;
constexpr int kParametersFd = 4;
constexpr int kContributionsFd = 5;
constexpr int kFirstFreeFd = 6;

constexpr const char kOurVariables[] = "SHOAL_PROGRAM_";

// The longest single wait: the system's waits do not count the time in which the machine is
// suspended.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

// The longest wait for the end of a process that was killed. The process may hang in a call of a
// file system or a driver for ever, but it executes nothing of its program any more.
constexpr absl::Duration kEndOfKilled = absl::Seconds(10);

// Returns the time-out of a poll that is repeated until the deadline.
int PollTimeout(absl::Time deadline, absl::Time now) {
  if (deadline == absl::InfiniteFuture()) return -1;
  const absl::Duration left = std::clamp(deadline - now, absl::ZeroDuration(), kLongestWait);
  return static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
}

// Waits until the descriptor can be read or is closed on the other side. Returns false at the
// deadline.
bool AwaitInput(int fd, absl::Time deadline, const Clock& clock) {
  do {
    pollfd polled = {fd, POLLIN, 0};
    if (poll(&polled, 1, PollTimeout(deadline, clock.Now())) > 0) return true;
  } while (clock.Now() < deadline);
  return false;
}

std::vector<std::string> EnvironmentOfProgram(
    absl::Span<const std::pair<std::string, std::string>> own) {
  std::vector<std::string> environment;
  const auto is_replaced = [own](absl::string_view inherited) {
    return absl::c_any_of(own, [inherited](const auto& variable) {
      return absl::StartsWith(inherited, absl::StrCat(variable.first, "="));
    });
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (absl::StartsWith(*variable, kOurVariables) || is_replaced(*variable)) continue;
    environment.emplace_back(*variable);
  }
  for (const auto& [name, value] : own) environment.push_back(absl::StrCat(name, "=", value));
  environment.push_back(absl::StrCat(kOurVariables, "SOCKET=", kSocketFd));
  environment.push_back(absl::StrCat(kOurVariables, "PARAMETERS=", kParametersFd));
  environment.push_back(absl::StrCat(kOurVariables, "CONTRIBUTIONS=", kContributionsFd));
  return environment;
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Makes a copy of the descriptor that is none of those that the program gets, so that they can be
// put into their places in any order. Returns false and leaves errno if that fails.
bool PutAside(int fd, UniqueFd* copy) {
  *copy = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd));
  return copy->is_valid();
}

// Everything that the child needs, made before fork: after it only calls that are safe in the child
// of a process with several threads are made.
struct Start {
  std::vector<char*> argv;
  std::vector<char*> environment;
  pid_t parent = 0;
  pid_t group = 0;
  int input = -1;
  int output = -1;  // -1: the same as the log.
  int log = -1;     // -1: inherited.
  int socket = -1;
  int parameters = -1;
  int contributions = -1;
  int failure = -1;  // Receives errno if the program cannot be started.
};

[[noreturn]] void BecomeChild(const Start& start) {
  setpgid(0, start.group);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) _exit(1);  // It died before prctl.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  struct sigaction ignored = {};
  ignored.sa_handler = SIG_IGN;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaction(signal, &ignored, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  bool is_set_up = dup2(start.input, STDIN_FILENO) >= 0;
  if (start.log >= 0) {
    is_set_up = is_set_up && dup2(start.log, STDERR_FILENO) >= 0;
  }
  is_set_up =
      is_set_up && dup2(start.output >= 0 ? start.output : STDERR_FILENO, STDOUT_FILENO) >= 0;
  is_set_up = is_set_up && dup2(start.socket, kSocketFd) >= 0 &&
              dup2(start.parameters, kParametersFd) >= 0 &&
              dup2(start.contributions, kContributionsFd) >= 0;
  if (is_set_up) execvpe(start.argv[0], start.argv.data(), start.environment.data());
  const int error = errno;
  const ssize_t written = write(start.failure, &error, sizeof(error));
  _exit(written == sizeof(error) ? 1 : 2);
}

// Returns the status of a start for which the system call `call` left `error` in errno.
absl::Status CannotPrepare(const std::string& program, absl::string_view call, int error) {
  return StatusOfErrno(error, absl::StrCat("program: ", program, " cannot be started: ", call));
}

// Returns the status of a program that the system refuses to execute with `error`.
absl::Status CannotStart(const ProgramProcess::Options& options, int error) {
  const std::string text =
      absl::StrCat("program: ", options.args[0], " cannot be started: ", std::strerror(error));
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(text, options.remedy));
    case EACCES:
    case ENOEXEC:
      return absl::PermissionDeniedError(absl::StrCat(text, options.remedy));
    case E2BIG:
      return absl::FailedPreconditionError(
          absl::StrCat(text, "; shorten program.args or the environment"));
    case ETXTBSY:  // Somebody copies or builds the program now.
      return absl::UnavailableError(text);
    default:
      return IsPassingError(error)
                 ? absl::UnavailableError(text)
                 : absl::FailedPreconditionError(absl::StrCat(text, options.remedy));
  }
}

// Opens a file for the program's output; not valid if `path` is empty.
absl::StatusOr<UniqueFd> OpenOutput(const std::string& path) {
  if (path.empty()) return UniqueFd();
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.is_valid()) return file;
  const int error = errno;
  const std::string text = absl::StrCat("program: log file ", path, ": ", std::strerror(error));
  const bool is_forbidden = error == EACCES || error == EPERM || error == EISDIR;
  return is_forbidden ? absl::PermissionDeniedError(text) : absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProgramProcess>> ProgramProcess::Start(const Options& options) {
  std::vector<std::string> args = options.args;
  std::vector<std::string> environment = EnvironmentOfProgram(options.environment);
  int sockets[2];
  int failures[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return CannotPrepare(args[0], "socketpair", errno);
  }
  UniqueFd socket(sockets[0]), socket_of_program(sockets[1]);
  if (pipe2(failures, O_CLOEXEC) != 0) return CannotPrepare(args[0], "pipe2", errno);
  const UniqueFd failure(failures[0]);
  UniqueFd write_failure(failures[1]);
  const UniqueFd input(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!input.is_valid()) return CannotPrepare(args[0], "/dev/null", errno);
  ASSIGN_OR_RETURN(const UniqueFd output, OpenOutput(options.output_file));
  ASSIGN_OR_RETURN(const UniqueFd log, OpenOutput(options.log_file));
  ASSIGN_OR_RETURN(std::unique_ptr<ProcessGroup> group, ProcessGroup::Start());
  UniqueFd aside[7];
  const bool are_aside =
      PutAside(input.get(), &aside[0]) && (!log.is_valid() || PutAside(log.get(), &aside[1])) &&
      PutAside(socket_of_program.get(), &aside[2]) && PutAside(options.parameters_fd, &aside[3]) &&
      PutAside(options.contributions_fd, &aside[4]) &&
      (!output.is_valid() || PutAside(output.get(), &aside[5])) &&
      PutAside(write_failure.get(), &aside[6]);
  if (!are_aside) return CannotPrepare(args[0], "fcntl", errno);
  write_failure = std::move(aside[6]);
  struct Start start;
  start.argv = Pointers(&args);
  start.environment = Pointers(&environment);
  start.parent = getpid();
  start.group = group->id();
  start.input = aside[0].get();
  start.log = aside[1].get();
  start.socket = aside[2].get();
  start.parameters = aside[3].get();
  start.contributions = aside[4].get();
  start.output = aside[5].get();
  start.failure = write_failure.get();
  const pid_t pid = fork();
  if (pid < 0) return CannotPrepare(args[0], "fork", errno);
  if (pid == 0) BecomeChild(start);
  setpgid(pid, group->id());  // The child does the same; one of the two calls comes first.
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  auto program = absl::WrapUnique(new ProgramProcess(pid, std::move(process), std::move(socket),
                                                     std::move(group), options.clock));
  if (!program->process_.is_valid()) return CannotPrepare(args[0], "pidfd_open", errno);
  write_failure.Reset();
  // The pipe is closed when the program is executed.
  if (!AwaitInput(failure.get(), options.clock->Now() + options.patience, *options.clock)) {
    return absl::DeadlineExceededError(
        absl::StrCat("program: the system did not execute ", args[0], " within ",
                     absl::FormatDuration(options.patience),
                     "; is its file system there? If it needs longer, raise cluster.wait_seconds"));
  }
  int error = 0;
  if (read(failure.get(), &error, sizeof(error)) == sizeof(error)) {
    return CannotStart(options, error);
  }
  return program;
}

ProgramProcess::~ProgramProcess() { End(absl::InfinitePast()); }

void ProgramProcess::Send(std::string* output) const {
  const ssize_t sent =
      send(socket_.get(), output->data(), output->size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) {
    output->erase(0, static_cast<size_t>(sent));
  } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    output->clear();  // The program does not read any more: its end follows.
  }
}

std::optional<ProgramChannel::Event> ProgramProcess::Read(std::string* input) {
  const ssize_t received = recv(socket_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (received > 0) {
    input->append(buffer_.data(), static_cast<size_t>(received));
    return Event::kReceived;
  }
  if (received < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  return Event::kClosed;
}

ProgramChannel::Event ProgramProcess::Wait(absl::Time deadline, std::string* output,
                                           std::string* input) {
  while (true) {
    if (!output->empty()) Send(output);
    pollfd polled[] = {{socket_.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}};
    if (!output->empty()) polled[0].events |= POLLOUT;
    const int ready = poll(polled, 2, PollTimeout(deadline, clock_->Now()));
    if (ready == 0 && clock_->Now() >= deadline) return Event::kTimeout;
    if (ready <= 0) continue;
    // The program's last messages come before its end.
    const bool has_ended = polled[1].revents != 0;
    if (polled[0].revents != 0 || has_ended) {
      const std::optional<Event> event = Read(input);
      if (event == Event::kReceived) return *event;
      if (has_ended) return Event::kEnded;
      if (event.has_value()) return *event;
    }
  }
}

bool ProgramProcess::AwaitEnd(absl::Time deadline) {
  return end_.has_value() || AwaitInput(process_.get(), deadline, *clock_);
}

ProgramEnd ProgramProcess::End(absl::Time deadline) {
  if (end_.has_value()) return *end_;
  const bool has_ended = AwaitEnd(deadline);
  end_.emplace();
  end_->was_killed = !has_ended;
  kill(pid_, SIGKILL);  // No other process can have its number before waitpid.
  group_->Kill();       // Processes that it started may live.
  if (process_.is_valid() && !AwaitInput(process_.get(), clock_->Now() + kEndOfKilled, *clock_)) {
    LOG(WARNING) << "the program (process " << pid_ << ") has not ended "
                 << absl::FormatDuration(kEndOfKilled)
                 << " after it was killed; it hangs in a call of the system";
    end_->exit = ChildExit{/*by_signal=*/true, SIGKILL};
    return *end_;
  }
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(pid_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  end_->exit = ended == pid_ ? ChildExit::FromStatus(status) : ChildExit::Unknown();
  return *end_;
}

}  // namespace shoal
