#ifndef SHOAL_WORKER_REPLICA_BATCH_KEYS_H_
#define SHOAL_WORKER_REPLICA_BATCH_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/data/prefetcher.h"
#include "runtime/plan/slice_table.h"

namespace shoal {

// A field of a batch whose numbers are keys of a table: a ragged field, or a dense one with one
// int64 for each example.
struct KeyField {
  size_t field = 0;  // the index of the field in the data set
  bool is_ragged = true;

  friend bool operator==(const KeyField& a, const KeyField& b) {
    return a.field == b.field && a.is_ragged == b.is_ragged;
  }
};

// A table that a program reads, and the fields of a batch with the keys of its rows.
struct TableLookups {
  uint32_t table = 0;  // the index of the table's variable
  std::vector<KeyField> fields;
};

// The rows of one table that a batch needs.
struct TableKeys {
  // Each key once, sorted by bucket and then by value, so that the rows of a bucket are contiguous.
  std::vector<uint64_t> keys;
  // The keys of the table's bucket b are keys[begins[b]] to keys[begins[b + 1] - 1]; it has none if
  // the two numbers are equal.
  std::vector<uint32_t> begins;
  // For each field of TableLookups: the index in `keys` of each key of the field.
  std::vector<std::vector<int32_t>> places;
};

// Finds the different keys of a batch for every table. It allocates only for a batch that has more
// keys than all batches before.
class BatchKeys : public BatchDigest {
 public:
  // `slices` is borrowed.
  BatchKeys(const SliceTable* slices, std::vector<TableLookups> lookups);

  // InvalidArgument if the batch has more than 2^31 - 1 keys for a table.
  absl::Status Update(const LoadedBatch& batch) override;
  // Takes the keys of a batch whose fields have none: the program itself names them. `keys` has an
  // entry for each of the lookups, with each key once and fewer than 2^31 of them.
  // TableKeys::places then has one entry, for these keys.
  void Take(uint32_t epoch, int64_t index, absl::Span<const absl::Span<const uint64_t>> keys);

  // The batch of the last Update or Take.
  uint32_t epoch() const { return epoch_; }
  int64_t index() const { return index_; }
  // Indexed as the lookups.
  const std::vector<TableKeys>& tables() const { return tables_; }

 private:
  // A key, and its number in the order in which the keys were found.
  struct Found {
    uint64_t key;
    uint32_t number;
  };

  absl::Status FindKeys(const LoadedBatch& batch, const TableLookups& lookups, TableKeys* out);
  // Returns the number of the key among those found, which it adds if it is new.
  uint32_t FindOrAddNumber(uint64_t key);
  void SortByBucket(uint32_t table, TableKeys* out);

  const SliceTable& slices_;
  const std::vector<TableLookups> lookups_;
  uint32_t epoch_ = 0;
  int64_t index_ = -1;
  std::vector<TableKeys> tables_;

  // Memory for one table at a time. `cells_` is a hash index of the keys found: 0 or 1 + number.
  std::vector<uint32_t> cells_;
  uint32_t cell_shift_ = 0;
  std::vector<uint64_t> found_;  // ordered by their numbers
  std::vector<uint32_t> bucket_of_;
  std::vector<Found> sorted_;
  std::vector<int32_t> place_of_;  // indexed by number
};

// Returns the keys of a batch that was read with a digest of this class.
inline const BatchKeys& GetKeys(const LoadedBatch& batch) {
  return static_cast<const BatchKeys&>(*batch.digest);
}

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_BATCH_KEYS_H_
