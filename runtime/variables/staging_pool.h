#ifndef SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_
#define SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace shoal {

// Memory for contributions that arrived before their turn. Its bytes, including those of free
// blocks, are bounded. Blocks have size classes (powers of two) and are reused; a free one is
// deleted when its bytes are needed for another class. Not thread-safe.
class StagingPool {
 public:
  // A block taken from the pool, to be returned with Release. An empty block has no data.
  struct Block {
    std::unique_ptr<char[]> data;
    uint64_t bytes = 0;  // the requested bytes, not those of the class
  };

  explicit StagingPool(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // Returns an empty block if more than the capacity would be in use. Each block counts with the
  // bytes of its class.
  Block Take(uint64_t bytes);
  void Release(Block block);

  uint64_t free_bytes() const { return capacity_bytes_ - used_bytes_; }
  // The bytes in free blocks.
  uint64_t kept_bytes() const { return kept_bytes_; }

 private:
  static constexpr int kNumClasses = 64;
  static int GetSizeClass(uint64_t bytes);
  void TrimTo(uint64_t kept_bytes);

  const uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  uint64_t kept_bytes_ = 0;  // the bytes in free_
  std::vector<std::unique_ptr<char[]>> free_[kNumClasses];
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_
