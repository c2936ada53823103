#ifndef SHOAL_WORKER_COMPUTE_COUNT_H_
#define SHOAL_WORKER_COMPUTE_COUNT_H_

#include <atomic>
#include <cstdint>

namespace shoal {

// Counts the computed batches and evaluation blocks, and knows whether one is being computed. The
// chief uses this to distinguish a worker that hangs from one that waits. One thread computes; any
// thread may read.
class ComputeCount {
 public:
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

  bool computing() const { return computing_; }
  uint64_t computed() const { return computed_; }

 private:
  std::atomic<bool> computing_{false};
  std::atomic<uint64_t> computed_{0};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_COMPUTE_COUNT_H_
