#include "deploy/hosts/reach_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "base/unique_fd.h"
#include "deploy/hosts/attend_command.h"
#include "deploy/launch/result_printer.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/report_address.h"
#include "runtime/process/shutdown.h"

extern char** environ;

namespace shoal {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);
constexpr absl::Duration kPulse = absl::Seconds(2);
// A host that was just started, or an sshd with many logins at once, may refuse for a moment.
constexpr int kAttempts = 3;
constexpr absl::Duration kBetweenAttempts = absl::Seconds(2);
// The exit codes of OpenSSH's client and of shells.
constexpr int kSshFailed = 255;
constexpr int kNoProgram = 127;

struct ReachOptions {
  std::string name;
  std::string host;
  bool again = false;
  std::vector<std::string> ssh;
  int report_fd = -1;
  int parent_pid = 0;
};

absl::StatusOr<ReachOptions> Parse(absl::Span<const std::string> args) {
  ReachOptions options;
  size_t i = 0;
  for (; i < args.size() && args[i] != "--"; ++i) {
    absl::string_view arg = args[i];
    if (absl::ConsumePrefix(&arg, "--name=")) {
      options.name = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--host=")) {
      options.host = std::string(arg);
    } else if (arg == "--again") {
      options.again = true;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(args[i], ": is not a flag of shoal reach"));
    }
  }
  size_t end = args.size();
  // The process that starts a child adds these.
  for (; end > i; --end) {
    absl::string_view arg = args[end - 1];
    if (absl::ConsumePrefix(&arg, "--report_fd=")) {
      (void)absl::SimpleAtoi(arg, &options.report_fd);
    } else if (absl::ConsumePrefix(&arg, "--parent_pid=")) {
      (void)absl::SimpleAtoi(arg, &options.parent_pid);
    } else {
      break;
    }
  }
  if (end < i + 2) {
    return absl::InvalidArgumentError(
        "shoal reach is what shoal launch runs for each task; use shoal launch");
  }
  options.ssh.assign(args.begin() + static_cast<long>(i) + 1,
                     args.begin() + static_cast<long>(end));
  return options;
}

// Reads the lines that arrive in a pipe.
class LineReader {
 public:
  explicit LineReader(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }
  // Reads the whole lines that are there now. Closes at the end.
  std::vector<std::string> Read() {
    char part[4096];
    const ssize_t size = read(fd_.get(), part, sizeof(part));
    if (size > 0) text_.append(part, static_cast<size_t>(size));
    if (size == 0) {
      fd_.Reset();
      if (!text_.empty()) text_ += '\n';
    }
    std::vector<std::string> lines;
    size_t end = 0;
    while ((end = text_.find('\n')) != std::string::npos) {
      lines.push_back(std::string(absl::StripSuffix(text_.substr(0, end), "\r")));
      text_.erase(0, end + 1);
    }
    return lines;
  }

 private:
  UniqueFd fd_;
  std::string text_;
};

// One run of the ssh client.
class Connection {
 public:
  // `report_fd` gets the task's address; closed then.
  Connection(const ReachOptions& options, int* report_fd)
      : options_(options), report_fd_(report_fd) {}

  absl::Status Open();
  // Blocks until ssh has ended. Ends the task when `shutdown` is requested.
  void Serve(const ShutdownNotification& shutdown);

  bool greeted() const { return greeted_; }
  const std::optional<ChildExit>& task_exit() const { return task_exit_; }
  const std::string& refusal() const { return refusal_; }
  int ssh_code() const { return ssh_code_; }
  const std::string& last_words() const { return last_words_; }

 private:
  void OnLine(const std::string& line);
  void OnWord(absl::string_view word);
  void Pulse(bool end);

  const RealClock clock_;  // Setting the system's time holds no pulse back.
  const ReachOptions& options_;
  int* const report_fd_;
  pid_t pid_ = 0;
  UniqueFd input_;
  std::unique_ptr<LineReader> output_;
  std::unique_ptr<LineReader> errors_;
  absl::Time next_pulse_ = absl::InfinitePast();
  bool end_sent_ = false;
  bool greeted_ = false;
  std::optional<ChildExit> task_exit_;
  std::string refusal_;
  std::string last_words_;
  int ssh_code_ = 0;
};

absl::Status Connection::Open() {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  const UniqueFd far_in(in[0]), far_out(out[1]), far_err(err[1]);
  input_.Reset(in[1]);
  fcntl(in[1], F_SETFL, O_NONBLOCK);
  output_ = std::make_unique<LineReader>(UniqueFd(out[0]));
  errors_ = std::make_unique<LineReader>(UniqueFd(err[0]));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  std::vector<std::string> words = options_.ssh;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cannot start ", words[0], ": ", std::strerror(error), "; install OpenSSH's client"));
}

void Connection::Pulse(bool end) {
  if (end && !end_sent_) {
    end_sent_ = true;
    if (write(input_.get(), "k", 1) < 0) return;
  }
  if (clock_.Now() < next_pulse_) return;
  next_pulse_ = clock_.Now() + kPulse;
  if (write(input_.get(), ".", 1) < 0) return;
}

void Connection::Serve(const ShutdownNotification& shutdown) {
  int status = 0;
  while (true) {
    Pulse(shutdown.requested());
    pollfd entries[] = {{output_->fd(), POLLIN, 0}, {errors_->fd(), POLLIN, 0}};
    poll(entries, 2, static_cast<int>(absl::ToInt64Milliseconds(kTick)));
    if (entries[0].revents != 0) {
      for (const std::string& line : output_->Read()) OnLine(line);
    }
    if (entries[1].revents != 0) {
      for (const std::string& line : errors_->Read()) OnLine(line);
    }
    // A master connection that ssh left behind may hold the pipes open.
    if ((output_->fd() < 0 && errors_->fd() < 0) || task_exit_.has_value() || !refusal_.empty()) {
      input_.Reset();
      if (waitpid(pid_, &status, 0) == pid_) break;
    }
    if (waitpid(pid_, &status, WNOHANG) == pid_) break;
  }
  while (output_->fd() >= 0) {
    pollfd entry = {output_->fd(), POLLIN, 0};
    if (poll(&entry, 1, 0) <= 0) break;
    for (const std::string& line : output_->Read()) OnLine(line);
  }
  ssh_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : kSshFailed;
}

void Connection::OnLine(const std::string& line) {
  absl::string_view word = line;
  if (absl::ConsumePrefix(&word, kAttendPrefix)) return OnWord(word);
  if (absl::StripAsciiWhitespace(line).empty()) return;
  last_words_ = line;
  std::fprintf(stderr, "%s: %s\n", options_.host.c_str(), line.c_str());
}

void Connection::OnWord(absl::string_view word) {
  int number = 0;
  if (absl::ConsumePrefix(&word, "hello ")) {
    if (absl::SimpleAtoi(word, &number) && number == kAttendVersion) {
      greeted_ = true;
    } else {
      refusal_ = "another version of shoal is installed there; install the same on every host";
    }
  } else if (absl::ConsumePrefix(&word, "address ")) {
    if (*report_fd_ >= 0) ReportAddress(*report_fd_, word).IgnoreError();
    *report_fd_ = -1;
  } else if (absl::ConsumePrefix(&word, "refused ")) {
    refusal_ = std::string(word);
  } else if (absl::ConsumePrefix(&word, "exit ") && absl::SimpleAtoi(word, &number)) {
    task_exit_ = ChildExit{false, number};
  } else if (absl::ConsumePrefix(&word, "signal ") && absl::SimpleAtoi(word, &number)) {
    task_exit_ = ChildExit{true, number};
  }
}

[[noreturn]] void DieOf(int number) {
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  signal(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  kill(getpid(), number);
  _exit(128 + number);
}

// Returns why the task did not run, or did not run to its end.
absl::Status Failure(const ReachOptions& options, const Connection& connection) {
  const std::string at = absl::StrCat("host ", options.host, ": ");
  if (!connection.refusal().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(at, connection.refusal()));
  }
  if (connection.greeted()) {
    return absl::UnavailableError(absl::StrCat(at, "the connection was lost",
                                               connection.last_words().empty() ? "" : ": ",
                                               connection.last_words()));
  }
  std::string why;
  if (connection.ssh_code() == kSshFailed) {
    why = absl::StrCat("cannot be reached by ssh: ", connection.last_words(), "; `",
                       TryByHand(options.ssh, options.host), "` must work without questions");
  } else if (connection.ssh_code() == kNoProgram) {
    why = absl::StrCat("there is no such program: ", connection.last_words(),
                       "; install the same shoal at the same path on every host");
  } else {
    why = absl::StrCat("shoal does not start there, exit code ", connection.ssh_code(), ": ",
                       connection.last_words());
  }
  const std::string message = absl::StrCat(at, why);
  return options.again ? absl::UnavailableError(message) : absl::FailedPreconditionError(message);
}

absl::Status Reach(ReachOptions* options) {
  ShutdownNotification shutdown;
  SignalOptions signals;
  signals.hard_exit_after = absl::InfiniteDuration();
  signals.on_second = [](int /*signal*/) {};
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> watcher,
                   SignalWatcher::Start(signals, &shutdown));
  for (int attempt = 1;; ++attempt) {
    Connection connection(*options, &options->report_fd);
    RETURN_IF_ERROR(connection.Open());
    connection.Serve(shutdown);
    if (connection.task_exit().has_value()) {
      const ChildExit exit = *connection.task_exit();
      if (exit.by_signal) DieOf(exit.number);
      _exit(exit.number);
    }
    const bool is_transient = !connection.greeted() && connection.refusal().empty() &&
                              connection.ssh_code() == kSshFailed;
    if (!is_transient || attempt == kAttempts || shutdown.WaitFor(kBetweenAttempts)) {
      return Failure(*options, connection);
    }
  }
}

}  // namespace

std::string TryByHand(absl::Span<const std::string> ssh, absl::string_view host) {
  std::string command = "ssh -o BatchMode=yes ";
  for (size_t i = 1; i + 1 < ssh.size(); ++i) {
    const bool is_named = ssh[i] == "-F" || ssh[i] == "-l" || ssh[i] == "-p";
    if (!is_named && ssh[i] != "-o") continue;
    ++i;  // The option's value, whatever it looks like.
    if (is_named) absl::StrAppend(&command, ssh[i - 1], " ", AsShellWord(ssh[i]), " ");
  }
  return absl::StrCat(command, host, " true");
}

int ReachMain(absl::Span<const std::string> args) {
  absl::StatusOr<ReachOptions> options = Parse(args);
  if (options.ok() && options->parent_pid != 0) DieWithParent(options->parent_pid);
  const absl::Status status = options.ok() ? Reach(&*options) : options.status();
  const std::string job = options.ok() ? options->name.substr(0, options->name.find('/')) : "reach";
  // The same text as the task's own main logs, so that readers of the log find it.
  std::fprintf(stderr, "shoal %s: %s\n", job.c_str(), std::string(status.message()).c_str());
  return ToExitCode(status);
}

}  // namespace shoal
