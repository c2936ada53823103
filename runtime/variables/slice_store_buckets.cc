// Slices that are buckets of tables.
#include <map>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/table_settings.h"

namespace shoal {

// The updater of the newest variable in updaters_.
absl::Status SliceStore::AddTable(const v1::VariableSpec& spec) {
  ASSIGN_OR_RETURN(const TableSettings settings, TableSettingsFrom(spec, options_.update));
  Table table;
  ASSIGN_OR_RETURN(table.updater, TableUpdater::Create(settings.options, options_.seed));
  table.pool = std::make_shared<SlabPool>(table.updater->row_floats());
  ASSIGN_OR_RETURN(table.rate_index, rules_->AddRate(settings.schedule));
  tables_.emplace(static_cast<uint32_t>(updaters_.size() - 1), std::move(table));
  return absl::OkStatus();
}

std::unique_ptr<Bucket> SliceStore::MakeBucket(uint32_t slice) {
  Table& table = tables_[table_[slice].variable];
  return std::make_unique<Bucket>(table.updater.get(), table.pool);
}

absl::Status SliceStore::LoadBucket(SliceState& state, const LoadOptions& options,
                                    SliceSource& source) {
  const TableUpdater& updater = *tables_.at(table_[state.slice].variable).updater;
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

bool SliceStore::ApplyRowsOrPoison(SliceState& state, const Bucket::Step& update) {
  if (state.bucket->Apply(update)) return true;
  state.poisoned = true;
  events_.poisoned.push_back({update.version + 1, state.slice, update.learning_rate});
  return false;
}

PullAnswer SliceStore::ReadRows(uint32_t slice, uint64_t version, absl::Span<const uint64_t> keys,
                                float* values) const {
  const PullAnswer answer = TryPull(slice, version);
  if (answer.state != PullAnswer::kValue) return answer;
  const SliceState& state = StateOf(slice);
  const bool is_previous =
      options_.synchronous && state.sync.Find(version) == SyncSlice::Value::kPrevious;
  state.bucket->Read(options_.synchronous ? version : state.updates, is_previous, keys, values);
  return answer;
}

std::vector<TableUse> SliceStore::TablesInUse() const {
  std::map<uint32_t, TableUse> uses;
  for (const std::unique_ptr<SliceState>& state : states_) {
    if (state->bucket == nullptr) continue;
    TableUse& use = uses[table_[state->slice].variable];
    use.rows += state->bucket->num_rows();
    use.bytes += state->bucket->bytes();
  }
  std::vector<TableUse> all;
  for (auto& [table, use] : uses) {
    use.table = table;
    use.bytes += tables_.at(table).pool->bytes();
    all.push_back(use);
  }
  return all;
}

}  // namespace shoal
