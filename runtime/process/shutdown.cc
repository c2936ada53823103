#include "runtime/process/shutdown.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

// A SIGTERM or SIGHUP so soon after the first signal is not a second request: Slurm sends two
// SIGTERM when it preempts, `timeout` of GNU one to its child and one to their process group, and a
// terminal that closes two SIGHUP, its own and the shell's.
constexpr absl::Duration kSameSignal = absl::Seconds(2);

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  // The loss of the terminal stops the run in order, unless nohup wants it to continue.
  struct sigaction hang_up = {};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
    sigaddset(&set, SIGHUP);
  }
  return set;
}

absl::Status SystemError(const char* call) {
  return absl::InternalError(absl::StrCat(call, ": ", std::strerror(errno)));
}

// Opens a descriptor that becomes readable when the parent has ended. PR_SET_PDEATHSIG is
// unsuitable: it sends its signal when the thread of the parent that started this process ends, and
// launchers start processes from threads of a pool.
UniqueFd WatchParent(pid_t parent) {
  UniqueFd watch(static_cast<int>(syscall(SYS_pidfd_open, parent, 0)));
  if (getppid() == parent) return watch;
  // It had ended, and another process may have its number.
  return UniqueFd(eventfd(1, EFD_CLOEXEC));
}

// Milliseconds for poll(2); -1 waits for ever.
int PollTimeout(absl::Time now, absl::Time until) {
  if (until == absl::InfiniteFuture()) return -1;
  const int64_t left = absl::ToInt64Milliseconds(until - now) + 1;
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1000000));
}

}  // namespace

void ShutdownNotification::Request(int signal) {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(&mutex_);
    if (requested_) return;
    requested_ = true;
    signal_ = signal;
    callbacks.swap(callbacks_);
    ++running_;
    changed_.NotifyAll();
  }
  Call(callbacks);
}

void ShutdownNotification::Call(const std::vector<std::function<void()>>& callbacks) {
  for (const std::function<void()>& callback : callbacks) callback();
  MutexLock lock(&mutex_);
  --running_;
  changed_.NotifyAll();
}

void ShutdownNotification::Close() {
  MutexLock lock(&mutex_);
  closed_ = true;
  callbacks_.clear();
  asked_.clear();
  while (running_ > 0) changed_.Wait(&mutex_);
}

bool ShutdownNotification::requested() const {
  MutexLock lock(&mutex_);
  return requested_;
}

int ShutdownNotification::signal() const {
  MutexLock lock(&mutex_);
  return signal_;
}

void ShutdownNotification::Wait() {
  MutexLock lock(&mutex_);
  while (!requested_) changed_.Wait(&mutex_);
}

bool ShutdownNotification::WaitFor(absl::Duration timeout) {
  const RealClock clock;
  const absl::Time end = clock.Now() + timeout;
  MutexLock lock(&mutex_);
  while (!requested_) {
    if (!clock.WaitUntil(end, &mutex_, &changed_)) return requested_;
  }
  return true;
}

void ShutdownNotification::Subscribe(std::function<void()> callback) {
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    if (!requested_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

void ShutdownNotification::Ask(AskedFor what) {
  std::vector<std::function<void()>> callbacks;
  {
    MutexLock lock(&mutex_);
    for (const auto& [known, callback] : asked_) {
      if (known == what) callbacks.push_back(callback);
    }
    ++running_;
  }
  Call(callbacks);
}

void ShutdownNotification::OnAsked(AskedFor what, std::function<void()> callback) {
  MutexLock lock(&mutex_);
  if (!closed_) asked_.emplace_back(what, std::move(callback));
}

int ToExitCode(const absl::Status& status, const ShutdownNotification& shutdown) {
  if (absl::IsCancelled(status) && shutdown.signal() == SIGINT) return kExitInterrupted;
  return ToExitCode(status);
}

absl::StatusOr<std::unique_ptr<SignalWatcher>> SignalWatcher::Start(
    const SignalOptions& options, ShutdownNotification* shutdown) {
  const sigset_t set = WatchedSignals();
  if (pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return SystemError("pthread_sigmask");
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_valid()) return SystemError("signalfd");
  UniqueFd stop(eventfd(0, EFD_CLOEXEC));
  if (!stop.is_valid()) return SystemError("eventfd");
  UniqueFd parent = options.parent != 0 ? WatchParent(options.parent) : UniqueFd();
  return std::unique_ptr<SignalWatcher>(
      new SignalWatcher(options, shutdown, std::move(signals), std::move(stop), std::move(parent)));
}

SignalWatcher::SignalWatcher(const SignalOptions& options, ShutdownNotification* shutdown,
                             UniqueFd signals, UniqueFd stop, UniqueFd parent)
    : options_(options),
      shutdown_(shutdown),
      signals_(std::move(signals)),
      stop_(std::move(stop)),
      parent_(std::move(parent)),
      end_([this] {
        if (parent_ended_) LOG(INFO) << "the process that started this one has ended; as SIGTERM";
        shutdown_->Request(first_signal_);
      }),
      checkpoint_([this] { shutdown_->Ask(AskedFor::kCheckpoint); }),
      status_([this] { shutdown_->Ask(AskedFor::kStatus); }),
      reload_([this] { shutdown_->Ask(AskedFor::kReload); }),
      thread_([this] { Loop(); }) {}

SignalWatcher::~SignalWatcher() {
  // First: if one of them hangs, signals still end the process.
  for (BackgroundCall* call : {&end_, &checkpoint_, &status_, &reload_}) call->Close();
  const uint64_t one = 1;
  if (write(stop_.get(), &one, sizeof(one)) != sizeof(one)) std::perror("eventfd");
  thread_.join();
}

void SignalWatcher::Loop() {
  while (true) {
    pollfd entries[] = {
        {signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}, {parent_.get(), POLLIN, 0}};
    poll(entries, 3, PollTimeout(clock_.Now(), hard_exit_));
    if ((entries[1].revents & POLLIN) != 0) return;
    if (clock_.Now() >= hard_exit_) {
      std::fprintf(stderr, "shoal: did not end in time; ending now\n");
      _exit(128 + first_signal_);
    }
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      OnSignal(static_cast<int>(info.ssi_signo));
    }
    if ((entries[2].revents & POLLIN) != 0) OnParentEnded();
  }
}

void SignalWatcher::OnSignal(int signal) {
  if (signal == SIGUSR1) return checkpoint_.Request();
  if (signal == SIGUSR2) return status_.Request();
  if (signal == SIGHUP && options_.hang_up_reloads) return reload_.Request();
  if (first_signal_ != 0) {
    if (signal != SIGINT && clock_.Now() < same_until_) return;
    if (options_.on_second) return options_.on_second(signal);
    std::fprintf(stderr, "shoal: ended at once by a second signal\n");
    _exit(128 + signal);
  }
  first_signal_ = signal;
  same_until_ = clock_.Now() + kSameSignal;
  hard_exit_ = clock_.Now() + options_.hard_exit_after;
  end_.Request();
}

void SignalWatcher::OnParentEnded() {
  parent_.Reset();
  if (first_signal_ != 0) return;
  parent_ended_ = true;
  OnSignal(SIGTERM);
}

void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t wanted = 65536;
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(limit.rlim_max, wanted);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace shoal
