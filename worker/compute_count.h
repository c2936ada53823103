#ifndef SHOAL_WORKER_COMPUTE_COUNT_H_
#define SHOAL_WORKER_COMPUTE_COUNT_H_

#include <atomic>
#include <cstdint>

namespace shoal {

// How many batches and evaluation blocks were computed, and whether one is being computed: by this
// the chief tells a worker that hangs from one that waits. One thread computes; any may ask.
class ComputeCount {
 public:
  // Lives as long as one batch or block is read and computed.
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

  bool computing() const { return computing_; }
  uint64_t computed() const { return computed_; }

 private:
  std::atomic<bool> computing_{false};
  std::atomic<uint64_t> computed_{0};
};

}  // namespace shoal

#endif  // SHOAL_WORKER_COMPUTE_COUNT_H_
