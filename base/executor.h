// Runs closures one after the other, in the order posted, on a thread of its own.
#ifndef SHOAL_BASE_EXECUTOR_H_
#define SHOAL_BASE_EXECUTOR_H_

#include <deque>
#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"

namespace shoal {

// Every method may be called from any thread, Post also from closures.
class SerialExecutor {
 public:
  explicit SerialExecutor(absl::string_view name);
  // Stops.
  ~SerialExecutor();

  // Runs `closure` after all closures that were posted before. Drops it if the executor was
  // stopped.
  void Post(absl::AnyInvocable<void()> closure) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs the closures that were posted before and joins the thread. Must not be called by a closure
  // of this executor. Repeated calls do nothing.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  bool IsCurrentThread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void RunThread(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  CondVar changed_;
  std::deque<absl::AnyInvocable<void()>> closures_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_EXECUTOR_H_
