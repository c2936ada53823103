#ifndef SHOAL_WORKER_COMPUTE_COUNT_H_
#define SHOAL_WORKER_COMPUTE_COUNT_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace shoal {

// Counts the computed batches and evaluation blocks, and knows whether one is being computed. The
// chief uses this to distinguish a worker that hangs from one that waits. A program that reports
// progress while it computes a long batch or block counts as if it had computed one more. One
// thread computes; any thread may read.
class ComputeCount {
 public:
  // Reports of progress count at most once in this time, so that they hardly change the average
  // time of a batch.
  explicit ComputeCount(absl::Duration progress_period) : progress_period_(progress_period) {}

  // Exists while one batch or block is read and computed.
  class Scope {
   public:
    explicit Scope(ComputeCount* count) : count_(count) { count_->computing_ = true; }
    ~Scope() {
      ++count_->computed_;
      count_->computing_ = false;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    ComputeCount* const count_;
  };

  // Exists while the computation waits for another task.
  class Pause {
   public:
    explicit Pause(ComputeCount* count) : count_(count) { count_->computing_ = false; }
    ~Pause() { count_->computing_ = true; }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    ComputeCount* const count_;
  };

  // Called by the thread that computes, within a Scope: the program has computed a part.
  void OnProgress(absl::Time now) {
    if (now < last_progress_ + progress_period_) return;
    last_progress_ = now;
    ++computed_;
  }

  bool computing() const { return computing_; }
  uint64_t computed() const { return computed_; }

 private:
  const absl::Duration progress_period_;
  absl::Time last_progress_ = absl::InfinitePast();
  std::atomic<bool> computing_{false};
  std::atomic<uint64_t> computed_{0};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_COMPUTE_COUNT_H_
