#include "worker/replica/checkpoint_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/memory/memory.h"

#include "base/status_macros.h"
#include "runtime/variables/table_settings.h"

namespace shoal {
namespace {

// A bucket sorts its keys again when it has this many more than twice the sorted ones.
constexpr size_t kMostUnsorted = 1024;

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointRows>> CheckpointRows::Create(
    Checkpoint* checkpoint, std::vector<TableLookups> lookups) {
  auto rows = absl::WrapUnique(new CheckpointRows(checkpoint, std::move(lookups)));
  const SliceTable& slices = checkpoint->slices();
  for (const TableLookups& lookup : rows->lookups_) {
    const v1::VariableSpec& spec = checkpoint->manifest().variables(static_cast<int>(lookup.table));
    ASSIGN_OR_RETURN(const TableOptions options, TableOptionsFrom(spec, {}));
    Table& table = rows->tables_.emplace_back();
    ASSIGN_OR_RETURN(table.updater, TableUpdater::Create(options, checkpoint->manifest().seed()));
    table.first_slice = slices.first_slice_of(lookup.table);
    table.buckets.resize(slices.num_buckets_of(lookup.table));
  }
  rows->rows_.resize(rows->tables_.size());
  return rows;
}

std::unique_ptr<BatchDigest> CheckpointRows::MakeDigest() const {
  return std::make_unique<BatchKeys>(&checkpoint_.slices(), lookups_);
}

absl::Status CheckpointRows::ReadFor(const Dataset& data, const BatchPlan& plan, int threads,
                                     const std::function<bool()>& is_stopped) {
  PrefetcherOptions options;
  options.threads = threads;
  options.make_digest = [this] { return MakeDigest(); };
  Prefetcher batches(data, plan, options);
  for (int64_t index = 0; index < plan.batches_per_epoch(); ++index) {
    if (is_stopped()) return absl::CancelledError("asked to stop");
    ASSIGN_OR_RETURN(const LoadedBatch* batch, batches.Take(0, index));
    if (index + 1 < plan.batches_per_epoch()) batches.Schedule(0, index + 1);
    Want(GetKeys(*batch));
    batches.Release(batch);
  }
  for (Table& table : tables_) {
    for (size_t b = 0; b < table.buckets.size(); ++b) {
      if (is_stopped()) return absl::CancelledError("asked to stop");
      RETURN_IF_ERROR(ReadBucket(table.first_slice + static_cast<uint32_t>(b), *table.updater,
                                 &table.buckets[b]));
    }
  }
  return absl::OkStatus();
}

void CheckpointRows::Want(const BatchKeys& keys) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    const TableKeys& wanted = keys.tables()[t];
    for (size_t b = 0; b < tables_[t].buckets.size(); ++b) {
      WantedBucket& bucket = tables_[t].buckets[b];
      bucket.keys.insert(bucket.keys.end(), wanted.keys.begin() + wanted.begins[b],
                         wanted.keys.begin() + wanted.begins[b + 1]);
      if (bucket.keys.size() <= 2 * bucket.num_sorted + kMostUnsorted) continue;
      std::sort(bucket.keys.begin(), bucket.keys.end());
      bucket.keys.erase(std::unique(bucket.keys.begin(), bucket.keys.end()), bucket.keys.end());
      bucket.num_sorted = bucket.keys.size();
    }
  }
}

absl::Status CheckpointRows::ReadBucket(uint32_t slice, const TableUpdater& updater,
                                        WantedBucket* bucket) {
  if (bucket->keys.empty()) return absl::OkStatus();
  std::sort(bucket->keys.begin(), bucket->keys.end());
  bucket->keys.erase(std::unique(bucket->keys.begin(), bucket->keys.end()), bucket->keys.end());
  const size_t dim = updater.dim();
  ASSIGN_OR_RETURN(const BucketRows stored, checkpoint_.ReadBucket(slice, {}));
  bucket->values.resize(bucket->keys.size() * dim);
  auto next = stored.keys.begin();
  for (size_t i = 0; i < bucket->keys.size(); ++i) {
    const uint64_t key = bucket->keys[i];
    float* const value = bucket->values.data() + i * dim;
    next = std::lower_bound(next, stored.keys.end(), key);
    if (next == stored.keys.end() || *next != key) {
      updater.FillInitialValue(key, value);
      continue;
    }
    const auto place = static_cast<size_t>(next - stored.keys.begin());
    std::memcpy(value, stored.rows.data() + place * dim, dim * sizeof(float));
  }
  return absl::OkStatus();
}

absl::Span<const TableRows> CheckpointRows::GetRows(const BatchKeys& keys) {
  for (size_t t = 0; t < tables_.size(); ++t) {
    Table& table = tables_[t];
    const TableKeys& wanted = keys.tables()[t];
    const size_t dim = table.updater->dim();
    int64_t capacity = std::max<int64_t>(table.capacity, 1);
    while (capacity < static_cast<int64_t>(wanted.keys.size())) capacity *= 2;
    if (capacity > table.capacity) {
      table.capacity = capacity;
      table.memory = Buffer(static_cast<uint64_t>(capacity) * dim * sizeof(float));
    }
    auto* value = static_cast<float*>(table.memory.data());
    for (size_t b = 0; b < table.buckets.size(); ++b) {
      const WantedBucket& bucket = table.buckets[b];
      auto next = bucket.keys.begin();
      for (uint32_t i = wanted.begins[b]; i < wanted.begins[b + 1]; ++i, value += dim) {
        next = std::lower_bound(next, bucket.keys.end(), wanted.keys[i]);
        const auto place = static_cast<size_t>(next - bucket.keys.begin());
        std::memcpy(value, bucket.values.data() + place * dim, dim * sizeof(float));
      }
    }
    rows_[t] = {&wanted, static_cast<const float*>(table.memory.data()), table.capacity};
  }
  return rows_;
}

}  // namespace shoal
