// The one way a process hears that it should end, or do something on request.
//
// A role waits for, or subscribes to, the ShutdownNotification; the SignalWatcher of main turns
// signals into it: SIGINT and SIGTERM (and SIGHUP, where it does not mean to reload) into the end,
// SIGUSR1, SIGUSR2 and SIGHUP into what else can be asked for. A second SIGINT or SIGTERM ends the
// process at once; some time after the first one it is ended even if something hangs, be it in what
// was subscribed: that never runs on the thread that reads signals.
#ifndef SHOAL_RUNTIME_PROCESS_SHUTDOWN_H_
#define SHOAL_RUNTIME_PROCESS_SHUTDOWN_H_

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "runtime/process/errand.h"

namespace shoal {

// Requests that a process can receive any number of times while it runs.
enum class AskedFor {
  kCheckpoint,  // SIGUSR1
  kStatus,      // SIGUSR2: say in the log what it does
  kReload,      // SIGHUP: open the log file again
};

// Thread safe.
class ShutdownNotification {
 public:
  // The first request counts. `signal` is 0 when it was no signal.
  void Request(int signal = 0) ABSL_LOCKS_EXCLUDED(mutex_);

  bool requested() const ABSL_LOCKS_EXCLUDED(mutex_);
  int signal() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Wait() ABSL_LOCKS_EXCLUDED(mutex_);
  // False if `timeout` of real time passed first.
  bool WaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // `callback` runs once, on the thread that requests, or at once here if that has happened. It
  // must not block and must outlive the notification's last request, or Close.
  void Subscribe(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls what was subscribed to it. `callback` runs on the thread that asks, each time; it must
  // outlive the notification, or Close.
  void Ask(AskedFor what) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnAsked(AskedFor what, std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for callbacks under way on other threads; none is called after it. Requests are still
  // noted.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // After running_ was raised for them.
  void Call(const std::vector<std::function<void()>>& callbacks) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // Threads that call callbacks.
  std::vector<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<AskedFor, std::function<void()>>> asked_ ABSL_GUARDED_BY(mutex_);
};

// The exit code of a task that ended with `status`: as exit_code.h says, but 130 or 143 when it was
// cancelled by that signal.
int ExitCodeOf(const absl::Status& status, const ShutdownNotification& shutdown);

struct SignalOptions {
  // After the first signal the process ends with 128 + signal when this much time has passed;
  // infinite: never.
  absl::Duration hard_exit_after = absl::Seconds(15);
  // Called instead of ending at once when another signal comes (launchers: kill the children
  // first).
  std::function<void(int signal)> on_second;
  // SIGHUP is a request to reload, else it ends the process as SIGTERM does.
  bool hang_up_reloads = false;
  // The end of the parent process counts as SIGTERM, unless a signal has come before: of launchers
  // that are killed and can tell nobody. Without effect on Linux before 5.3 and where the parent is
  // in another namespace.
  bool ends_with_parent = false;
};

// Constructed first in main, before any thread, so that every thread inherits the blocked signals.
// Also ignores SIGPIPE. A second signal ends the process at once, but for a SIGTERM within two
// seconds of the first. Not thread safe; its own thread is joined by the destructor.
class SignalWatcher {
 public:
  // `shutdown` is borrowed and outlives the watcher.
  static absl::StatusOr<std::unique_ptr<SignalWatcher>> Start(const SignalOptions& options,
                                                              ShutdownNotification* shutdown);
  ~SignalWatcher();

  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  SignalWatcher(const SignalOptions& options, ShutdownNotification* shutdown, UniqueFd signals,
                UniqueFd stop, UniqueFd parent);
  void Loop();
  void OnSignal(int signal);
  void OnParentEnded();

  const SignalOptions options_;
  ShutdownNotification* const shutdown_;
  const UniqueFd signals_;  // signalfd
  const UniqueFd stop_;     // eventfd
  UniqueFd parent_;         // pidfd; none where nobody asked for it, or it has ended.
  const RealClock clock_;
  // Used by the watcher's thread; set once, before end_ is requested.
  int first_signal_ = 0;
  bool parent_ended_ = false;
  absl::Time same_until_ = absl::InfinitePast();
  absl::Time hard_exit_ = absl::InfiniteFuture();
  Errand end_, checkpoint_, status_, reload_;  // Calls that may block, or hang.
  std::thread thread_;
};

// Asks for 65,536 open files, or as many as the system allows.
void RaiseFileLimit();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_SHUTDOWN_H_
