#ifndef SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_
#define SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace shoal {

// Memory for contributions that came before their turn, bounded in bytes. Blocks are kept by size
// class (powers of two) and used again. One thread at a time.
class StagingPool {
 public:
  // A block taken from the pool. Give it back with Release; an empty block has no data.
  struct Block {
    std::unique_ptr<char[]> data;
    uint64_t bytes = 0;  // asked for
  };

  explicit StagingPool(uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // An empty block if more than the capacity would be in use.
  Block Take(uint64_t bytes);
  void Release(Block block);

  uint64_t free_bytes() const { return capacity_bytes_ - used_bytes_; }

 private:
  static int ClassOf(uint64_t bytes);

  const uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  std::vector<std::unique_ptr<char[]>> free_[64];
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_STAGING_POOL_H_
