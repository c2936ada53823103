// Slices that are buckets of tables.
#include <vector>

#include "base/status_macros.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

absl::Status SliceStore::LoadBucket(StoreSlice& state, const LoadOptions& options,
                                    SliceSource& source) {
  const TableUpdater& updater = tables_.updater(table_[state.slice].variable);
  std::vector<float> row(updater.row_floats());
  updater.FillInitialRow(/*key=*/0, row.data());
  SliceSource::BucketContents contents;
  contents.initial_slots.assign(row.begin() + static_cast<ptrdiff_t>(updater.dim()), row.end());
  contents.version = contents.value_version = options.version;
  RETURN_IF_ERROR(source.FillBucket(state.slice, &contents));
  RETURN_IF_ERROR(
      TakeVersions(state, options, contents.version, contents.value_version, &contents.applied));
  return state.bucket->Load(contents.version, contents.rows);
}

PullAnswer SliceStore::ReadRows(uint32_t slice, uint64_t version, absl::Span<const uint64_t> keys,
                                float* values) const {
  const PullAnswer answer = TryPull(slice, version);
  if (answer.state != PullAnswer::kValue) return answer;
  const StoreSlice& state = GetState(slice);
  const bool is_previous =
      options_.synchronous && state.sync.Find(version) == SyncSlice::Value::kPrevious;
  state.bucket->Read(options_.synchronous ? version : state.updates, is_previous, keys, values);
  return answer;
}

}  // namespace shoal
