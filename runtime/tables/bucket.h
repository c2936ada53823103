#ifndef SHOAL_RUNTIME_TABLES_BUCKET_H_
#define SHOAL_RUNTIME_TABLES_BUCKET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "runtime/tables/row_index.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/table_updater.h"
#include "runtime/variables/contribution.h"
#include "runtime/variables/sync_slice.h"

namespace shoal {

// What a batch contributes to one bucket: keys in rising order and, for each, `dim` floats, the sum
// of the batch's gradients of that row. Nothing at all is a contribution too.
struct RowGradients {
  absl::Span<const uint64_t> keys;
  const float* gradients = nullptr;
};

// Returns whether the keys rise and the gradients are finite: kAccepted, or why not.
PushOutcome CheckRowGradients(const RowGradients& rows, size_t dim);

// One bucket of a table: the rows of the keys that a hash assigns to it. It is to a table what a
// slice is to a dense variable: it has a version, takes each batch's contribution once, and can be
// read at its current and its previous version.
//
// SYNC: step s is applied when the contributions of all its positions have arrived or are passed
// over. They are added per row in the order of positions, so the result has the same bytes whatever
// the order of arrival. Apply makes version s + 1, changes only the rows that were touched, and
// keeps their old values in an undo list, from which version s is read until the next Apply.
// ASYNC: ApplyNow applies one contribution; the version counts them.
//
// A row is stored from the update in which its key is admitted (TableOptions::min_count) until it
// has been idle (idle_updates). In between it is a function of its key, so a read never stores
// anything. Both follow from the version alone.
//
// For one thread at a time.
class Bucket {
 public:
  enum class Value { kCurrent, kPrevious, kNotYet, kGone };

  // Both must outlive the bucket. `pool` is of updater->row_floats().
  Bucket(const TableUpdater* updater, SlabPool* pool, uint32_t max_positions);

  // Starts a lineage without rows. `num_positions` is the number of positions of the next step.
  void Reset(uint64_t version, uint32_t num_positions);
  // Adds a row of a checkpoint, after Reset. `touched` is the version that made its value.
  void Load(uint64_t key, uint64_t touched, absl::Span<const float> row);
  // Adds the count of a key that is not admitted yet.
  void LoadCount(uint64_t key, uint32_t count);

  uint64_t version() const { return sync_.version(); }
  size_t num_rows() const { return num_rows_; }
  // The bytes of the index, the undo list and the staged contributions; the pool counts the rows.
  uint64_t bytes() const;

  // SYNC. The caller has checked the contribution with CheckRowGradients.
  PushOutcome Push(uint64_t step, uint32_t position, uint32_t examples, const RowGradients& rows);
  // Passes over a position of the next step, whose batch is skipped, if it has not arrived.
  void PassOver(uint32_t position);
  bool Has(uint64_t step, uint32_t position) const { return sync_.Has(step, position); }
  // Returns whether all positions of the next step have arrived or are passed over.
  bool IsComplete() const { return sync_.AllThrough(); }

  // Applies the step, which must be complete. Returns false if a number of a new row is not finite:
  // then nothing is changed. A step planned with one batch is not scaled.
  bool Apply(float learning_rate, bool is_scaled, uint32_t num_positions_of_next_step);
  // ASYNC: applies one contribution, as Apply does.
  bool ApplyNow(const RowGradients& rows, float learning_rate);

  Value Find(uint64_t version) const;
  // Writes the values (dim floats each) of the keys at a version that Find calls kCurrent or
  // kPrevious.
  void Read(uint64_t version, absl::Span<const uint64_t> keys, float* values) const;

  // Calls visit(key, touched, row) for every stored row of the current version, in no particular
  // order, and visit_count(key, count) for every key that is counted.
  template <typename Visit, typename VisitCount>
  void ForEach(Visit visit, VisitCount visit_count) const {
    index_.ForEach([&](const RowIndex::Entry& entry) {
      if (!entry.has_row()) {
        visit_count(entry.key, entry.stamp);
      } else if (!IsIdle(entry.stamp, version())) {
        visit(entry.key, uint64_t{entry.stamp}, slabs_[entry.row()]);
      }
    });
  }

 private:
  // A contribution that waits for its turn. The memory is used again and again.
  struct Staged {
    std::vector<uint64_t> keys;
    std::vector<float> gradients;
    uint32_t examples = 0;
    bool passed_over = false;
  };
  // The sums of the next step. The index gives the place of each key.
  struct Sums {
    RowIndex index;
    std::vector<uint64_t> keys;
    std::vector<float> gradients;

    uint64_t bytes() const;
    void Clear();
  };
  // What the newest update changed. The index gives the place of each key.
  struct Undo {
    enum Before : uint8_t {
      kAbsent,   // the index did not hold the key
      kCounted,  // the key was counted
      kStored,   // it had a row
      kIdle,     // it had an idle row, and is counted now
    };
    RowIndex index;
    std::vector<uint64_t> keys;
    std::vector<Before> before;
    std::vector<uint32_t> stamps;
    std::vector<float> rows;

    float* row(size_t place, size_t row_floats) { return rows.data() + place * row_floats; }
    uint64_t bytes() const;
    void Clear();
  };

  bool IsIdle(uint32_t stamp, uint64_t version) const;
  void AddNext(uint32_t examples, const RowGradients& rows);
  void TakeStaged();
  void AddToSums(const RowGradients& rows, float weight);
  bool ApplySums(float learning_rate, float scale);
  bool ApplyBlock(size_t begin, size_t end, const TableUpdater::Update& update);
  // Counts the key at this place of the undo list and returns its new row, or null if it is not
  // admitted yet.
  float* Admit(size_t place, uint32_t stamp);
  void RollBack(size_t num_keys);
  void RemoveSomeIdle(size_t num_entries);
  const float* ReadUndo(size_t place, uint64_t version) const;

  const TableUpdater& updater_;
  const size_t dim_;
  RowIndex index_;
  RowSlabs slabs_;
  size_t num_rows_ = 0;
  size_t scanned_ = 0;  // where the search for idle rows continues
  TableUpdater::Scratch scratch_;
  std::vector<float> some_gradients_;
  std::vector<uint64_t> idle_;

  SyncSlice sync_;
  std::vector<Staged> staged_;  // by position
  Sums sums_;
  Undo undo_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_BUCKET_H_
