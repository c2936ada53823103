#include "runtime/variables/staging_pool.h"

#include <utility>

namespace shoal {

int StagingPool::ClassOf(uint64_t bytes) {
  int size_class = 6;  // 64 bytes
  while ((uint64_t{1} << size_class) < bytes) ++size_class;
  return size_class;
}

StagingPool::Block StagingPool::Take(uint64_t bytes) {
  if (bytes > free_bytes()) return {};
  used_bytes_ += bytes;
  const int size_class = ClassOf(bytes);
  std::vector<std::unique_ptr<char[]>>& free = free_[size_class];
  if (free.empty()) return {std::unique_ptr<char[]>(new char[uint64_t{1} << size_class]), bytes};
  Block block{std::move(free.back()), bytes};
  free.pop_back();
  return block;
}

void StagingPool::Release(Block block) {
  if (block.data == nullptr) return;
  used_bytes_ -= block.bytes;
  free_[ClassOf(block.bytes)].push_back(std::move(block.data));
}

}  // namespace shoal
