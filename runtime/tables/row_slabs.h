#ifndef SHOAL_RUNTIME_TABLES_ROW_SLABS_H_
#define SHOAL_RUNTIME_TABLES_ROW_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mutex.h"

namespace shoal {

// Gives memory for rows of one width in slabs of 4 to 8 KiB (or of one row, if that is larger).
// Slabs are small, because a table has hundreds of buckets, and the last slab of each is half empty
// on average. They are cut from chunks, which are mapped. A chunk of 2 MiB or more begins at a huge
// page and consists of whole ones, so that the kernel can use them. The memory of slabs that are
// given back is kept for other slabs. Thread-safe.
class SlabPool {
 public:
  // `row_floats` is the number of floats in a row, for its value and its slots; at least 1.
  explicit SlabPool(size_t row_floats);
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;
  ~SlabPool();

  size_t row_floats() const { return row_floats_; }
  // A power of two.
  size_t rows_per_slab() const { return rows_per_slab_; }

  // Returns memory for rows_per_slab() rows, 64-byte aligned, whose contents are undefined.
  float* Allocate() ABSL_LOCKS_EXCLUDED(mutex_);
  // Takes slabs of this pool back, to allocate them again.
  void GiveBack(const std::vector<float*>& slabs) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the bytes of all chunks, whether rows use them or not.
  uint64_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const size_t row_floats_;
  const size_t rows_per_slab_;
  const size_t slab_bytes_;

  struct Chunk {
    char* memory = nullptr;
    size_t bytes = 0;
  };
  mutable Mutex mutex_;
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mutex_);
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of the last chunk that were cut into slabs
  std::vector<float*> free_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The rows of one bucket, by row number. A row never moves. Not thread-safe.
class RowSlabs {
 public:
  // `pool` must outlive the object.
  explicit RowSlabs(SlabPool* pool);
  RowSlabs(const RowSlabs&) = delete;
  RowSlabs& operator=(const RowSlabs&) = delete;
  ~RowSlabs() { pool_->GiveBack(slabs_); }

  // Returns the number of a free row, whose contents are undefined. There are at most 2^31 rows.
  uint32_t Take();
  void GiveBack(uint32_t row) { free_.push_back(row); }

  float* operator[](uint32_t row) const {
    return slabs_[row >> shift_] + static_cast<size_t>(row & mask_) * row_floats_;
  }

 private:
  SlabPool* const pool_;
  const size_t row_floats_;
  const int shift_;
  const uint32_t mask_;
  std::vector<float*> slabs_;
  std::vector<uint32_t> free_;
  uint32_t num_taken_ = 0;  // rows from here on were never taken
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_ROW_SLABS_H_
