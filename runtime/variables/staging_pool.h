#ifndef SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_
#define SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace shoal {

// Memory for contributions that came before their turn, bounded in bytes, those of free blocks
// included. Blocks are kept by size class (powers of two) and used again; a free one goes when its
// bytes are needed for another class. One thread at a time.
class StagingPool {
 public:
  // A block taken from the pool. Give it back with Release; an empty block has no data.
  struct Block {
    std::unique_ptr<char[]> data;
    uint64_t bytes = 0;  // asked for
  };

  explicit StagingPool(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // An empty block if more than the capacity would be in use, each block counted with its class's
  // bytes.
  Block Take(uint64_t bytes);
  void Release(Block block);

  uint64_t free_bytes() const { return capacity_bytes_ - used_bytes_; }
  // In free blocks.
  uint64_t kept_bytes() const { return kept_bytes_; }

 private:
  static constexpr int kNumClasses = 64;
  static int ClassOf(uint64_t bytes);
  void TrimTo(uint64_t kept_bytes);

  const uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  uint64_t kept_bytes_ = 0;  // in free_
  std::vector<std::unique_ptr<char[]>> free_[kNumClasses];
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_
