// Runs a closure periodically on its own thread, for heartbeats, progress lines and the like.
#ifndef SHOAL_BASE_PERIODIC_TASK_H_
#define SHOAL_BASE_PERIODIC_TASK_H_

#include <string>
#include <thread>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"

namespace shoal {

// The first run is one period after construction. Each later run starts one period after the start
// of the previous one, or right after it if it took longer. Thread-safe.
class PeriodicTask {
 public:
  // `period` must be > 0. The clock is borrowed and must outlive the task.
  PeriodicTask(absl::string_view name, absl::Duration period, const Clock& clock,
               absl::AnyInvocable<void()> closure);
  // Stops.
  ~PeriodicTask();

  // Waits for a run in progress and joins the thread. Must not be called by the closure.
  // Idempotent.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void RunThread(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Duration period_;
  const Clock& clock_;
  absl::AnyInvocable<void()> closure_;

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_PERIODIC_TASK_H_
