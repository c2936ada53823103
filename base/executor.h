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

  // Runs `closure` after all that was posted before. Dropped after a stop.
  void Post(absl::AnyInvocable<void()> closure) ABSL_LOCKS_EXCLUDED(mutex_);

  // Runs what was posted before, joins the thread. Not from the executor's own closures. Repeated
  // calls do nothing.
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
