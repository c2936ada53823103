#ifndef SHOAL_RUNTIME_VARIABLES_BUCKET_H_
#define SHOAL_RUNTIME_VARIABLES_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/row_index.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/step_keys.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/tables/table_updater.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/step_contributions.h"

namespace shoal {

// The memory in which the buckets of a table compute, one at a time.
struct BucketScratch {
  explicit BucketScratch(const TableUpdater& updater) : update(updater) {}

  TableUpdater::Scratch update;
  std::vector<float> some_gradients;
  RowScratch rows;
};

// One bucket of a table: the rows of the keys that a hash assigns to it. It holds what SliceValues
// holds for a dense slice: the current value, the one before it, and the sum of the contributions
// to the next one. SyncSlice and StepContributions decide when a contribution is added; they add in
// the order of positions, so the bytes do not depend on the order of arrival.
//
// An update changes only the rows that were touched, and keeps their old values in an undo list,
// from which the previous version is read until the next update.
//
// A row is stored from the update in which its key is admitted (TableOptions::min_count) until it
// is idle: more than TableOptions::idle_updates updates of the bucket have not touched its key.
// Before the admission the updates that touch a key are counted; when that key is idle, its count
// starts from 0 again. The value of a row that is not stored follows from its key, so a read never
// stores anything. Which rows are stored depends only on the updates so far.
//
// Not thread-safe.
class Bucket : public ContributionSum {
 public:
  // All buckets of a table share `updater`, `counts` and `scratch`, which must outlive the bucket.
  // The rows of `pool` have updater->row_floats() floats.
  Bucket(const TableUpdater* updater, std::shared_ptr<SlabPool> pool, TableCounts* counts,
         BucketScratch* scratch);

  // Starts a lineage with the rows of a checkpoint. DATA_LOSS if they cannot be those of a bucket
  // at the version: keys that do not rise, arrays of different lengths, a number that is not
  // finite.
  absl::Status Load(uint64_t version, const BucketRows& rows);
  // Returns the rows of the current value, which has this version. The cut stays as it is, also
  // after another Load, and may be read on another thread while this bucket is updated.
  std::shared_ptr<BucketCut> Cut(uint64_t version) const;

  size_t dim() const { return dim_; }
  size_t num_rows() const { return rows_->num_rows; }
  // The bytes of the index, the undo list, the sums and the rows that cuts keep; the pool counts
  // the current rows.
  uint64_t bytes() const;
  // The bytes of the rows that cuts keep because they have changed.
  uint64_t bytes_of_cuts() const;

  // Adds a payload of kRows that PayloadFits has accepted, times the weight.
  void Add(const Payload& payload, float weight, bool is_first) override;
  // Returns the sum of the squares of all sums.
  double SquaresOfSums() const;

  struct Step {
    uint64_t version = 0;        // the version of the current value; the update makes the next one
    uint64_t value_version = 0;  // the first version that has the current value
    float learning_rate = 0;
    float scale = 1;  // multiplies the sums
  };
  // Updates the rows that have sums, and clears the sums. Returns false if a number of a new row is
  // not finite: then the rows are as before, and the previous version is lost.
  bool Apply(const Step& step);

  // Writes the values of the keys' rows (dim floats each) at a version: the current one or, if
  // `is_previous`, the one before it.
  void Read(uint64_t version, bool is_previous, absl::Span<const uint64_t> keys,
            float* values) const;
  // Asks for the memory that look-ups of these keys read first. Reading or updating them soon after
  // waits less.
  void Prefetch(absl::Span<const uint64_t> keys) const { rows_->index.Prefetch(keys); }

 private:
  // The sums of the next step, at the places of their keys.
  struct Sums {
    StepKeys keys;
    std::vector<float> gradients;

    uint64_t bytes() const;
    // Gives memory for more than `most_rows` rows back.
    void Clear(size_t most_rows, size_t dim);
  };
  // The rows that the newest update changed, as they were, at the places of their keys.
  struct Undo {
    bool had_row(size_t place) const {
      return entries[place].stamp != 0 && entries[place].has_row();
    }
    StepKeys keys;
    // The keys' entries; the stamp of a key that the index did not hold is 0.
    std::vector<RowIndex::Entry> entries;
    std::vector<float> rows;  // undefined for keys that had none

    float* row(size_t place, size_t row_floats) { return rows.data() + place * row_floats; }
    uint64_t bytes() const;
    void Clear(size_t most_rows);
    // Makes place for the rows of all keys, and gives memory for more than `most_rows` back.
    void StartUpdate(size_t most_rows, size_t row_floats);
  };
  // Some keys of the undo list, one after the other, with their entries in the index. The entries
  // are valid until a key is inserted.
  struct Block {
    size_t begin = 0, size = 0;  // places in the undo list
    const RowIndex::Entry* entries[TableUpdater::kBlockRows];
  };

  // Brings the table's counts up to date. The caller does not hold the mutex of the rows.
  void Count();
  // Returns the rows for which the next updates may keep memory: a large step must not leave its
  // memory behind, and usual steps must not allocate.
  size_t MostRowsKept() const;
  // Does what Apply does, with the mutex of the rows.
  bool UpdateRows(const Step& step);
  // Sets entries[i] to the entry of keys[i], or null, and asks for the memory of the first
  // `num_floats` of each row.
  void FindRows(absl::Span<const uint64_t> keys, size_t num_floats,
                const RowIndex::Entry** entries) const;
  // Looks up the keys at places [begin, begin + kBlockRows), as far as there are any, and asks for
  // the memory of their rows.
  void FindBlock(size_t begin, Block* block) const;
  bool ApplyBlock(const Block& block, const TableUpdater::Update& update, uint64_t version);
  // Counts the key at this place of the undo list, which had no row at this version, and returns
  // its new row, or null if it is not admitted yet.
  float* Admit(size_t place, uint64_t version);
  void RollBack(size_t num_keys);
  void RemoveSomeIdle(size_t num_entries, uint64_t oldest_readable);
  const float* ReadUndo(size_t place, uint64_t version) const;
  // Keeps these keys of the undo list, as they were, for the cuts that lack them.
  void KeepForCuts(size_t num_keys);

  const TableUpdater& updater_;
  const size_t dim_;
  TableCounts* const counts_;
  int64_t counted_rows_ = 0;  // this bucket's share of counts_
  int64_t counted_bytes_ = 0;
  std::shared_ptr<StoredRows> rows_;  // another one after each Load
  size_t scanned_ = 0;                // the search for idle rows continues here
  std::vector<uint64_t> idle_;
  BucketScratch& scratch_;

  size_t usual_keys_ = 0;  // about the most keys that one of the last updates touched
  Sums sums_;
  Undo undo_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_BUCKET_H_
