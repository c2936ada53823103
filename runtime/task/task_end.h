#ifndef SHOAL_RUNTIME_TASK_TASK_END_H_
#define SHOAL_RUNTIME_TASK_TASK_END_H_

#include <utility>

#include "absl/status/status.h"

#include "runtime/process/shutdown.h"

namespace shoal {

// Decides what the end of a ps or a worker means. Construct it as soon as the task's part in the
// run has ended: a request that comes later was not the reason. Immutable.
class TaskEnd {
 public:
  // `status` is how the task's part in the run ended: OK or Cancelled if the run is over.
  TaskEnd(absl::Status status, const ShutdownNotification& shutdown)
      : status_(std::move(status)), was_asked_(shutdown.signal() != 0) {}

  const absl::Status& status() const { return status_; }
  // Returns whether this task was asked to end by a signal.
  bool was_asked() const { return was_asked_; }
  // Returns whether the run is over. Then the caller closes its client of the chief: the chief
  // needs no last heartbeat, and waiting for the one under way would only delay the task's end.
  bool is_run_over() const { return status_.ok() || (absl::IsCancelled(status_) && !was_asked_); }
  // Returns the task's result. The run may have ended while the task took part in the last
  // checkpoint; then it is still a task that was asked to end.
  absl::Status result() const {
    return status_.ok() && was_asked_ ? absl::CancelledError("asked to stop") : status_;
  }

 private:
  const absl::Status status_;
  const bool was_asked_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_END_H_
