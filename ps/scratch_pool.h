// Memory for the payloads of pushes that are in several pieces, or that wait for their turn.
#ifndef SHOAL_PS_SCRATCH_POOL_H_
#define SHOAL_PS_SCRATCH_POOL_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "base/mutex.h"

namespace shoal {

// Keeps a limited number of unused buffers and frees the others, so that the memory of a peak is
// freed. The buffer that was returned last is taken first, because it is still in the cache.
// Thread-safe.
class ScratchPool {
 public:
  explicit ScratchPool(size_t most_kept) : most_kept_(most_kept) {}

  // Returns a buffer of any size.
  std::vector<char> Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (kept_.empty()) return {};
    std::vector<char> buffer = std::move(kept_.back());
    kept_.pop_back();
    return buffer;
  }

  void Give(std::vector<char> buffer) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (buffer.capacity() == 0) return;
    MutexLock lock(&mutex_);
    if (kept_.size() < most_kept_) kept_.push_back(std::move(buffer));
  }

  // Returns the bytes of the buffers that are not in use.
  size_t kept_bytes() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    size_t bytes = 0;
    for (const std::vector<char>& buffer : kept_) bytes += buffer.capacity();
    return bytes;
  }

 private:
  const size_t most_kept_;
  mutable Mutex mutex_;
  std::vector<std::vector<char>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_PS_SCRATCH_POOL_H_
