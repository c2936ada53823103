#include "runtime/tables/row_slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "base/log.h"
#include "runtime/tables/mapped_memory.h"

namespace shoal {
namespace {

constexpr size_t kMostSlabBytes = size_t{8} << 10;
constexpr size_t kFirstChunkBytes = size_t{64} << 10;
constexpr size_t kMostChunkBytes = size_t{64} << 20;
constexpr size_t kAlignment = 64;
constexpr uint32_t kMostRows = uint32_t{1} << 31;

size_t RowsPerSlab(size_t row_floats) {
  size_t rows = 1;
  while (rows * 2 * row_floats * sizeof(float) <= kMostSlabBytes) rows *= 2;
  return rows;
}

// A pool below 8 MiB grows by a quarter, a larger one by whole huge pages: by one up to 128 MiB,
// then by 3 %, and by 64 MiB at most. A process may have only 65,530 mappings.
size_t NextChunkBytes(uint64_t pool_bytes) {
  if (pool_bytes < 4 * kHugePageBytes) return std::max<size_t>(pool_bytes / 4, kFirstChunkBytes);
  const size_t pages = std::max<size_t>(pool_bytes / 32 / kHugePageBytes, 1);
  return std::min(pages * kHugePageBytes, kMostChunkBytes);
}

int Log2(size_t power) { return __builtin_ctzll(power); }

}  // namespace

SlabPool::SlabPool(size_t row_floats)
    : row_floats_(row_floats),
      rows_per_slab_(RowsPerSlab(row_floats)),
      slab_bytes_((rows_per_slab_ * row_floats * sizeof(float) + kAlignment - 1) / kAlignment *
                  kAlignment) {}

SlabPool::~SlabPool() {
  for (const Chunk& chunk : chunks_) munmap(chunk.memory, chunk.bytes);
}

float* SlabPool::Allocate() {
  MutexLock lock(&mutex_);
  if (!free_.empty()) {
    float* const slab = free_.back();
    free_.pop_back();
    return slab;
  }
  if (chunks_.empty() || chunks_.back().bytes - used_ < slab_bytes_) {
    size_t bytes = std::max(slab_bytes_, NextChunkBytes(bytes_));
    if (bytes >= kHugePageBytes) {
      bytes = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    }
    void* const memory = MapMemory(bytes, "rows of tables");
    chunks_.push_back({static_cast<char*>(memory), bytes});
    bytes_ += bytes;
    used_ = 0;
  }
  char* const slab = chunks_.back().memory + used_;
  used_ += slab_bytes_;
  return reinterpret_cast<float*>(slab);
}

void SlabPool::GiveBack(const std::vector<float*>& slabs) {
  MutexLock lock(&mutex_);
  free_.insert(free_.end(), slabs.begin(), slabs.end());
}

uint64_t SlabPool::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

RowSlabs::RowSlabs(SlabPool* pool)
    : pool_(pool),
      row_floats_(pool->row_floats()),
      shift_(Log2(pool->rows_per_slab())),
      mask_(static_cast<uint32_t>(pool->rows_per_slab() - 1)) {}

uint32_t RowSlabs::Take() {
  if (!free_.empty()) {
    const uint32_t row = free_.back();
    free_.pop_back();
    return row;
  }
  if (num_taken_ >> shift_ == slabs_.size()) {
    CHECK(num_taken_ < kMostRows) << "a bucket has 2^31 rows; use more `buckets`";
    slabs_.push_back(pool_->Allocate());
  }
  return num_taken_++;
}

}  // namespace shoal
