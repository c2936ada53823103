#include "deploy/hosts/attend_command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/passing_errors.h"
#include "base/status_macros.h"
#include "runtime/process/child.h"
#include "runtime/process/exit_code.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(50);
// When the launcher is lost, the other tasks wait for the chief for `cluster.grace_seconds`. After
// this further time the remaining processes are killed.
constexpr absl::Duration kKillAfterGrace = absl::Seconds(10);
// The same time after the launcher has sent 'k'.
constexpr absl::Duration kKillAtOnce = absl::Seconds(2);

struct AttendOptions {
  std::string name;
  std::string log;
  std::string launch_file;
  std::string launch;
  absl::Duration patience = absl::Seconds(30);
  absl::Duration grace = absl::ZeroDuration();
  std::vector<std::string> command;
};

absl::StatusOr<AttendOptions> Parse(absl::Span<const std::string> args) {
  AttendOptions options;
  for (size_t i = 0; i < args.size(); ++i) {
    absl::string_view arg = args[i];
    double seconds = 0;
    if (arg == "--") {
      options.command.assign(args.begin() + static_cast<long>(i) + 1, args.end());
      break;
    }
    if (absl::ConsumePrefix(&arg, "--name=")) {
      options.name = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--log=")) {
      options.log = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--launch_file=")) {
      options.launch_file = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--launch=")) {
      options.launch = std::string(arg);
    } else if (absl::ConsumePrefix(&arg, "--patience=") && absl::SimpleAtod(arg, &seconds)) {
      options.patience = absl::Seconds(seconds);
    } else if (absl::ConsumePrefix(&arg, "--grace=") && absl::SimpleAtod(arg, &seconds)) {
      options.grace = absl::Seconds(seconds);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(args[i], ": is not a flag of shoal attend"));
    }
  }
  if (options.command.empty()) {
    return absl::InvalidArgumentError(
        "shoal attend is what shoal launch runs on other hosts; use shoal launch");
  }
  return options;
}

// Writes a line, after the end of whatever the login shell wrote before. The line is lost if the
// launcher is gone, which this process also notices from its input.
void SendLine(absl::string_view words) {
  const std::string line = absl::StrCat("\n", kAttendPrefix, words, "\n");
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) return;
}

void PrintError(const absl::Status& status) {
  std::fprintf(stderr, "shoal attend: %s\n", std::string(status.message()).c_str());
}

// Tells the launcher why the task was not started. After UNAVAILABLE the launcher starts the task
// again, as if the task had noticed it.
void TellNotStarted(const absl::Status& why) {
  if (absl::IsUnavailable(why)) {
    PrintError(why);
    SendLine(absl::StrCat("exit ", kExitRestartMe));
  } else {
    SendLine(absl::StrCat("refused ", why.message()));
  }
}

// Checks whether this host can run the task. UNAVAILABLE: that cannot be seen now.
absl::Status CheckFit(const AttendOptions& options) {
  const absl::StatusOr<std::string> text = ReadFile(*NewPosixFileSystem(), options.launch_file);
  if (absl::IsUnavailable(text.status())) return text.status();
  if (!text.ok() || *text != options.launch) {
    return absl::FailedPreconditionError(
        absl::StrCat("the run directory is not the launcher's here: ", options.launch_file,
                     text.ok() ? " is another file" : " cannot be read",
                     "; put it on a shared file system that every host sees at this path"));
  }
  if (access(options.command[0].c_str(), X_OK) != 0) {
    const int error = errno;
    if (IsPassingError(error)) return StatusOfErrno(error, options.command[0]);
    return absl::FailedPreconditionError(
        absl::StrCat("there is no program ", options.command[0],
                     "; install the same one at the same path on every host"));
  }
  return absl::OkStatus();
}

// The task, and what has been decided about its end.
class Attendance {
 public:
  Attendance(const AttendOptions& options, std::unique_ptr<Child> child)
      : options_(options), child_(std::move(child)) {}

  // Blocks until the task has ended. A task that outlives SIGKILL is waited for no longer than
  // Child::PatienceAfterKill.
  ChildExit Attend(const ShutdownNotification& shutdown) {
    while (true) {
      Listen();
      ReportAddressOnce();
      if (shutdown.requested()) EndAfter(absl::ZeroDuration(), options_.grace + kKillAfterGrace);
      if (clock_.Now() > last_contact_ + options_.patience) OnLost();
      if (clock_.Now() >= terminate_) {
        terminate_ = absl::InfiniteFuture();
        child_->Signal(SIGTERM);
      }
      if (clock_.Now() >= kill_) child_->Kill();
      if (const std::optional<ChildExit> exit = child_->Poll()) {
        ReportAddressOnce();  // It may have said it just before.
        return *exit;
      }
      if (child_->PatienceAfterKill() <= absl::ZeroDuration()) {
        PrintError(absl::DeadlineExceededError(
            absl::StrCat(child_->name(), ": process ", child_->pid(),
                         " has not ended since it was killed; it hangs in a call of the system")));
        return ChildExit{/*by_signal=*/true, SIGKILL};
      }
    }
  }

 private:
  // Waits a tick for a word of the launcher.
  void Listen() {
    pollfd entry = {input_is_open_ ? STDIN_FILENO : -1, POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(kTick))) <= 0) return;
    char words[256];
    const ssize_t size = read(STDIN_FILENO, words, sizeof(words));
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size <= 0) {
      input_is_open_ = false;
      OnLost();
      return;
    }
    last_contact_ = clock_.Now();
    if (std::find(words, words + size, 'k') != words + size) {
      EndAfter(absl::ZeroDuration(), kKillAtOnce);
    }
  }

  void OnLost() {
    const bool is_chief = absl::StartsWith(options_.name, "chief");
    EndAfter(is_chief ? absl::ZeroDuration() : options_.grace, options_.grace + kKillAfterGrace);
  }

  // The first word counts, but for one that is more urgent.
  void EndAfter(absl::Duration terminate, absl::Duration kill) {
    const absl::Time now = clock_.Now();
    if (now + kill >= kill_) return;
    if (!terminated_) terminate_ = now + terminate;
    terminated_ = terminated_ || terminate == absl::ZeroDuration();
    kill_ = now + kill;
  }

  void ReportAddressOnce() {
    if (address_reported_) return;
    const absl::StatusOr<std::string> address = child_->WaitForAddress(absl::ZeroDuration());
    if (address.ok()) SendLine(absl::StrCat("address ", *address));
    address_reported_ = address.ok() || !absl::IsDeadlineExceeded(address.status());
  }

  const RealClock clock_;  // Setting the system's time moves no deadline.
  const AttendOptions& options_;
  const std::unique_ptr<Child> child_;
  bool input_is_open_ = true;
  bool address_reported_ = false;
  bool terminated_ = false;
  absl::Time last_contact_ = clock_.Now();
  absl::Time terminate_ = absl::InfiniteFuture();
  absl::Time kill_ = absl::InfiniteFuture();
};

absl::Status Attend(const AttendOptions& options) {
  ShutdownNotification shutdown;
  SignalOptions signals;
  signals.hard_exit_after = absl::InfiniteDuration();
  signals.on_second = [](int /*signal*/) {};
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> watcher,
                   SignalWatcher::Start(signals, &shutdown));
  SendLine(absl::StrCat("hello ", kAttendVersion));
  if (const absl::Status fit = CheckFit(options); !fit.ok()) {
    TellNotStarted(fit);
    return absl::OkStatus();
  }
  ChildOptions child;
  child.name = options.name;
  child.args = options.command;
  child.log_file = options.log;
  child.reports_address = !absl::StartsWith(options.name, "worker");
  absl::StatusOr<std::unique_ptr<Child>> started = Child::Start(child);
  if (!started.ok()) {
    TellNotStarted(started.status());
    return absl::OkStatus();
  }
  const ChildExit exit = Attendance(options, *std::move(started)).Attend(shutdown);
  SendLine(absl::StrCat(exit.by_signal ? "signal " : "exit ", exit.number));
  return absl::OkStatus();
}

}  // namespace

int AttendMain(absl::Span<const std::string> args) {
  const absl::StatusOr<AttendOptions> options = Parse(args);
  const absl::Status status = options.ok() ? Attend(*options) : options.status();
  if (!status.ok()) PrintError(status);
  return ToExitCode(status);
}

}  // namespace shoal
