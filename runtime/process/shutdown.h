// The way in which a process is asked to end, or to do something while it runs.
//
// A role waits for, or subscribes to, the ShutdownNotification, and the SignalWatcher of main turns
// signals into requests: SIGINT and SIGTERM (and SIGHUP, unless it means to reload) ask the process
// to end; SIGUSR1, SIGUSR2 and SIGHUP ask for something else. A second signal of the first kind
// ends the process at once, unless it only repeats the first one. Some time after the first one the
// process is ended even if a callback hangs, because callbacks do not run on the thread that reads
// signals.
#ifndef SHOAL_RUNTIME_PROCESS_SHUTDOWN_H_
#define SHOAL_RUNTIME_PROCESS_SHUTDOWN_H_

#include <sys/types.h>

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
#include "runtime/process/background_call.h"

namespace shoal {

// Requests that a process can receive any number of times while it runs.
enum class AskedFor {
  kCheckpoint,  // SIGUSR1
  kStatus,      // SIGUSR2: log the task's status
  kReload,      // SIGHUP: reopen the log file
};

// Thread-safe.
class ShutdownNotification {
 public:
  // Requests the end; only the first request counts. `signal` is 0 if it did not come from a
  // signal.
  void Request(int signal = 0) ABSL_LOCKS_EXCLUDED(mutex_);

  bool requested() const ABSL_LOCKS_EXCLUDED(mutex_);
  int signal() const ABSL_LOCKS_EXCLUDED(mutex_);

  void Wait() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns false if `timeout` of real time passed first.
  bool WaitFor(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  // Calls `callback` once when the end is requested, on the requesting thread, or at once if it was
  // requested before. The callback must not block, and must stay valid until the last request or
  // Close.
  void Subscribe(std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Ask calls the callbacks of OnAsked for `what`, each time, on the calling thread. Callbacks must
  // stay valid until the notification is destroyed or Close.
  void Ask(AskedFor what) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnAsked(AskedFor what, std::function<void()> callback) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits for callbacks under way on other threads; none is called after that. Requests are still
  // recorded.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Calls the callbacks; running_ must have been increased before.
  void Call(const std::vector<std::function<void()>>& callbacks) ABSL_LOCKS_EXCLUDED(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  bool requested_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;  // The number of threads that call callbacks.
  std::vector<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::pair<AskedFor, std::function<void()>>> asked_ ABSL_GUARDED_BY(mutex_);
};

// Returns the exit code of a task that ended with `status`: that of exit_code.h, but 130 or 143 if
// it was cancelled by SIGINT or SIGTERM.
int ToExitCode(const absl::Status& status, const ShutdownNotification& shutdown);

struct SignalOptions {
  // The process exits with 128 + signal when this much time has passed since the first signal;
  // infinite: never.
  absl::Duration hard_exit_after = absl::Seconds(15);
  // Called for a second signal instead of exiting at once. Launchers kill their children first.
  std::function<void(int signal)> on_second;
  // SIGHUP is a request to reload; otherwise it ends the process like SIGTERM.
  bool hang_up_reloads = false;
  // The end of this process's parent counts as SIGTERM, unless a signal came before. This is for
  // launchers that are killed and cannot send a signal. 0: it does not count. Read the parent's
  // number with getppid first in main, so that its end before the watcher starts counts as well. A
  // later end is not noticed on Linux before 5.3; nor is any if the parent is in another namespace.
  pid_t parent = 0;
};

// Reads signals on its own thread, which the destructor joins. Must be started first in main,
// before any other thread, so that every thread inherits the blocked signals. Also ignores SIGPIPE.
// A second signal ends the process at once, except for a SIGTERM or SIGHUP within two seconds of
// the first signal. Not thread-safe.
class SignalWatcher {
 public:
  // `shutdown` is borrowed and must outlive the watcher.
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
  UniqueFd parent_;         // pidfd; invalid if not wanted, or if the parent has ended
  const RealClock clock_;
  // Used by the watcher's thread. first_signal_ is set once, before end_ is requested.
  int first_signal_ = 0;
  bool parent_ended_ = false;
  absl::Time same_until_ = absl::InfinitePast();
  absl::Time hard_exit_ = absl::InfiniteFuture();
  BackgroundCall end_, checkpoint_, status_, reload_;  // calls that may block or hang
  std::thread thread_;
};

// Raises the limit of open files to 65,536, or as far as the system allows.
void RaiseFileLimit();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_SHUTDOWN_H_
