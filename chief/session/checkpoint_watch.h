#ifndef SHOAL_CHIEF_SESSION_CHECKPOINT_WATCH_H_
#define SHOAL_CHIEF_SESSION_CHECKPOINT_WATCH_H_

#include <cstdint>

#include "absl/time/time.h"

namespace shoal {

// Detects that a run makes no checkpoints, whatever the reason: none has succeeded for twice the
// scheduled time or twice the scheduled number of steps. Not thread-safe.
class CheckpointWatch {
 public:
  struct Options {
    uint64_t every_steps = 0;                         // A checkpoint is due after so many steps;
    absl::Duration every = absl::InfiniteDuration();  // and after so much time.
    // A fast run may do twice as many steps while one checkpoint is being written, so time must
    // have passed, too.
    absl::Duration at_least = absl::Seconds(60);
    // A slow run may need more than twice the time before it reaches the step at which a checkpoint
    // is made.
    uint64_t at_least_steps = 4;
  };

  explicit CheckpointWatch(Options options) : options_(options) {}

  // Call it when training begins at `step`, and when a checkpoint of `step` has succeeded.
  void Restart(absl::Time now, uint64_t step) {
    since_ = now;
    step_ = step;
  }
  bool has_begun() const { return since_ != absl::InfiniteFuture(); }

  bool IsOverdue(absl::Time now, uint64_t newest_step) const {
    if (!has_begun() || newest_step <= step_) return false;
    const uint64_t steps = newest_step - step_;
    if (steps < options_.at_least_steps || now - since_ < options_.at_least) return false;
    const bool by_steps = options_.every_steps > 0 && steps >= 2 * options_.every_steps;
    return by_steps || now - since_ >= 2 * options_.every;
  }

  absl::Duration Age(absl::Time now) const { return now - since_; }

 private:
  const Options options_;
  absl::Time since_ = absl::InfiniteFuture();
  uint64_t step_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_CHECKPOINT_WATCH_H_
