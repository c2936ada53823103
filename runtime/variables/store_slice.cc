#include "runtime/variables/store_slice.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ml/optim/gradient_clipping.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/stored_rows.h"

namespace shoal {

StoreSlice::StoreSlice(uint32_t slice, const VariableUpdater& updater, const SliceShape& shape,
                       std::unique_ptr<Bucket> rows)
    : slice(slice),
      updater(&updater),
      shape(shape),
      values(updater, rows == nullptr ? shape.num_elements : 0),
      dense_sum(shape, &values),
      bucket(std::move(rows)),
      rate_index(updater.rate_index()),
      contributions(&sync,
                    bucket == nullptr ? static_cast<ContributionSum*>(&dense_sum) : bucket.get()) {}

double StoreSlice::SquaresOfSum() {
  if (bucket != nullptr) return bucket->SquaresOfSums();
  return SumOfSquares({values.sum(), static_cast<size_t>(shape.num_elements)});
}

void StoreSlice::ResetSync(const StepPlan& plan, uint64_t version, uint64_t value_version,
                           StagingPool* staging) {
  const uint32_t max_positions = plan.replicas_to_aggregate();
  contributions.Restart(max_positions, staging);
  waits_for_scale = false;
  sync = SyncSlice(max_positions);
  sync.Reset(version, value_version, plan.At(version).num_batches);
}

bool StoreSlice::Fits(const SliceTable& table, const Payload& payload, RowScratch* scratch) const {
  if (bucket == nullptr) {
    return payload.kind != ContributionKind::kRows && PayloadFits(payload, shape);
  }
  const std::optional<RowGradients> rows = DecodeRows(payload, bucket->dim(), scratch);
  if (!rows.has_value()) return false;
  const uint32_t variable = table[slice].variable;
  return std::all_of(rows->keys.begin(), rows->keys.end(),
                     [&](uint64_t key) { return table.BucketOf(variable, key) == slice; });
}

bool StoreSlice::IsFinite(const Payload& payload, RowScratch* scratch) const {
  if (bucket == nullptr) return PayloadIsFinite(payload, shape);
  return RowsAreFinite(*DecodeRows(payload, bucket->dim(), scratch), bucket->dim());
}

bool StoreSlice::Apply(const SliceValues::Step& update, SliceStoreEvents* events) {
  if (values.Apply(update)) return true;
  poisoned = true;
  events->poisoned.push_back({update.step + 1, slice, update.learning_rate});
  return false;
}

bool StoreSlice::ApplyRows(const Bucket::Step& update, SliceStoreEvents* events) {
  static_assert(StoredRows::StampOf(TouchedBefore(1)) == UINT32_MAX);
  static_assert(!IsTouchedBefore(kMostTableUpdates) && IsTouchedBefore(kMostTableUpdates + 1));
  const bool is_last = update.version >= kMostTableUpdates;
  if (!is_last && bucket->Apply(update)) return true;
  poisoned = true;
  events->poisoned.push_back({update.version + 1, slice, update.learning_rate});
  return false;
}

}  // namespace shoal
