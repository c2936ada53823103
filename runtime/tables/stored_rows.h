#ifndef SHOAL_RUNTIME_TABLES_STORED_ROWS_H_
#define SHOAL_RUNTIME_TABLES_STORED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

#include "base/mutex.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/row_index.h"
#include "runtime/tables/row_slabs.h"

namespace shoal {

class BucketCut;

// The rows of one bucket at its newest version, and the cuts that were taken of it.
//
// One thread at a time, the owner, changes the index, the slabs and the number of rows. It holds
// `mutex` while it does, because cuts read them on other threads. Without the mutex only the owner
// may read.
//
// A key's stamp is 1 + the bucket version that its newest update made, or 1 + TouchedBefore if no
// update of this run has touched it. Keys with a row and counted keys become idle by the same rule.
struct StoredRows {
  StoredRows(std::shared_ptr<SlabPool> pool, uint32_t idle_updates);
  StoredRows(const StoredRows&) = delete;
  StoredRows& operator=(const StoredRows&) = delete;

  static constexpr uint32_t StampOf(uint64_t touched) { return static_cast<uint32_t>(touched + 1); }
  static uint32_t TouchedOf(uint32_t stamp) { return stamp - 1; }
  // Returns whether the row, or the count, of a key with this stamp has expired at the version.
  bool IsIdle(uint32_t stamp, uint64_t version) const {
    return IsExpired(TouchedOf(stamp), version, idle_updates);
  }

  // Keeps a key as it was before a change for the cuts that do not have it yet. `before` is its
  // entry, with a stamp of 0 if there was none, and `row` its row, if it had one. The caller holds
  // the mutex.
  void KeepForCuts(const RowIndex::Entry& before, const float* row);
  // The bytes that cuts keep because rows changed under them. The caller holds the mutex.
  uint64_t bytes_of_cuts() const;

  const std::shared_ptr<SlabPool> pool;
  const uint32_t idle_updates;
  Mutex mutex;
  RowIndex index;
  RowSlabs slabs;
  size_t num_rows = 0;
  std::vector<BucketCut*> cuts;  // those that are not released
};

// The rows of a bucket at one version. Later updates do not change it. Taking a cut copies nothing.
// A row is copied when it changes for the first time after the cut, until the cut is released.
//
// Not thread-safe. It keeps the memory of the bucket's rows alive until it is released.
class BucketCut {
 public:
  // Cuts the rows, which have this version. Called by their owner.
  BucketCut(std::shared_ptr<StoredRows> rows, uint64_t version);
  ~BucketCut();
  BucketCut(const BucketCut&) = delete;
  BucketCut& operator=(const BucketCut&) = delete;

  // Keys of the cut, rising, with their entries.
  struct Selection {
    std::vector<RowIndex::Entry> rows;
    std::vector<RowIndex::Entry> counted;  // the keys without a row
  };
  struct Size {
    uint64_t rows = 0;
    uint64_t counted = 0;
  };

  // Returns the numbers of rows and of counted keys: of those that were touched after version
  // `since`, or of all.
  Size GetSize(std::optional<uint64_t> since) const;
  // Selects the keys that were touched after version `since`, or all of them.
  Selection Select(std::optional<uint64_t> since) const;
  // Copies what was selected. It holds the bucket's mutex for a few rows at a time.
  void Read(const Selection& selection, BucketRows* out) const;
  // Returns everything.
  BucketRows ReadAll() const;

  // Ends the cut, which must not be read any more: later changes of the bucket keep nothing for it.
  // Frees the rows if their bucket is gone or has been loaded again.
  void Release();

  // The bytes that are kept because rows have changed. The caller holds the mutex of the rows.
  uint64_t bytes() const;

 private:
  friend struct StoredRows;
  void Keep(const RowIndex::Entry& before, const float* row);
  // Calls visit(entry) for each key of the cut that is not idle. The caller holds the mutex.
  template <typename Visit>
  void ForEach(Visit visit) const;

  std::shared_ptr<StoredRows> rows_;  // null: released
  const uint64_t version_;
  const size_t row_floats_;
  Size size_;
  // The keys that have changed, as they were, and their rows; the mutex of the rows guards both.
  // The row number of an entry is a place in old_rows_. The stamp of a key that was not there is 0.
  absl::flat_hash_map<uint64_t, RowIndex::Entry> old_;
  std::vector<float> old_rows_;
};

// Sorts entries by key.
void SortByKey(std::vector<RowIndex::Entry>* entries);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_STORED_ROWS_H_
