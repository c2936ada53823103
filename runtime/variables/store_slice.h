#ifndef SHOAL_RUNTIME_VARIABLES_STORE_SLICE_H_
#define SHOAL_RUNTIME_VARIABLES_STORE_SLICE_H_

#include <cstdint>
#include <map>
#include <memory>

#include "base/interval_set.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/bucket.h"
#include "runtime/variables/fold.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/slice_store_events.h"
#include "runtime/variables/slice_values.h"
#include "runtime/variables/staging_pool.h"
#include "runtime/variables/step_contributions.h"
#include "runtime/variables/sync_slice.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

// One slice of a SliceStore: its value and slots, or its rows if it is a bucket of a table, with
// its version and the contributions to its next version. The store decides what happens to it. Not
// thread-safe.
struct StoreSlice {
  // `updater` must outlive the object. `rows` is null for a dense slice.
  StoreSlice(uint32_t slice, const VariableUpdater& updater, const SliceShape& shape,
             std::unique_ptr<Bucket> rows);

  // Returns whether the slice receives contributions, and so has versions.
  bool is_versioned() const { return updater->kind() != VariableUpdater::Kind::kNone; }
  // Returns the sum of a dense slice; null for a bucket, which has its own.
  float* sum() { return bucket == nullptr ? values.sum() : nullptr; }
  // Returns the sum of the squares of all numbers in the sum, dense or of rows.
  double SquaresOfSum();

  // SYNC: starts at this version, without contributions. `staging` must outlive the object.
  void ResetSync(const StepPlan& plan, uint64_t version, uint64_t value_version,
                 StagingPool* staging);

  // Returns whether the payload's length is right and its rows belong to this slice of `table`.
  // `scratch` is used to decode rows, here and below.
  bool Fits(const SliceTable& table, const Payload& payload, RowScratch* scratch) const;
  // Returns whether all numbers of a payload that fits are finite.
  bool IsFinite(const Payload& payload, RowScratch* scratch) const;

  // Applies an update to a dense slice. If the new value or slots are not finite, the slice keeps
  // the old ones and is poisoned: adds the event and returns false.
  bool Apply(const SliceValues::Step& update, SliceStoreEvents* events);
  // The same for a bucket. It is also poisoned, and unchanged, if it has had the most updates that
  // a bucket can have.
  bool ApplyRows(const Bucket::Step& update, SliceStoreEvents* events);

  const uint32_t slice;  // Global index.
  const VariableUpdater* const updater;
  const SliceShape shape;
  SliceValues values;  // Has no elements if the slice is a bucket.
  DenseSum dense_sum;
  const std::unique_ptr<Bucket> bucket;  // Null: a dense slice.
  uint32_t rate_index;                   // The index of the slice's learning rate; see UpdateRules.
  bool reports = false;                  // True for the run's report slice.
  bool poisoned = false;                 // Its last update was not finite.
  // SYNC
  SyncSlice sync{0};
  StepContributions contributions;
  // Its step has all contributions and waits for the factor by which gradients are clipped.
  bool waits_for_scale = false;
  // ASYNC
  uint64_t updates = 0;
  std::map<uint32_t, IntervalSet> applied;  // The batches that were applied, keyed by epoch.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_STORE_SLICE_H_
