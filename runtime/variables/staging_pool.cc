#include "runtime/variables/staging_pool.h"

#include <utility>

namespace shoal {

int StagingPool::GetSizeClass(uint64_t bytes) {
  int size_class = 6;  // 64 bytes
  while ((uint64_t{1} << size_class) < bytes) ++size_class;
  return size_class;
}

void StagingPool::TrimTo(uint64_t kept_bytes) {
  for (int size_class = kNumClasses; size_class-- > 0 && kept_bytes_ > kept_bytes;) {
    while (!free_[size_class].empty() && kept_bytes_ > kept_bytes) {
      free_[size_class].pop_back();
      kept_bytes_ -= uint64_t{1} << size_class;
    }
  }
}

StagingPool::Block StagingPool::Take(uint64_t bytes) {
  if (bytes > free_bytes()) return {};
  const int size_class = GetSizeClass(bytes);
  const uint64_t class_bytes = uint64_t{1} << size_class;
  if (class_bytes > free_bytes()) return {};
  used_bytes_ += class_bytes;
  std::vector<std::unique_ptr<char[]>>& free = free_[size_class];
  if (free.empty()) {
    TrimTo(free_bytes());
    return {std::unique_ptr<char[]>(new char[class_bytes]), bytes};
  }
  Block block{std::move(free.back()), bytes};
  free.pop_back();
  kept_bytes_ -= class_bytes;
  return block;
}

void StagingPool::Release(Block block) {
  if (block.data == nullptr) return;
  const int size_class = GetSizeClass(block.bytes);
  used_bytes_ -= uint64_t{1} << size_class;
  kept_bytes_ += uint64_t{1} << size_class;
  free_[size_class].push_back(std::move(block.data));
}

}  // namespace shoal
