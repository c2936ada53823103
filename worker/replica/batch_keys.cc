#include "worker/replica/batch_keys.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

// Odd, with bits that do not repeat: the golden ratio.
constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;

absl::Span<const int64_t> KeysIn(const LoadedBatch& batch, const KeyField& field) {
  if (field.is_ragged) return batch.ragged(field.field).keys();
  return absl::MakeConstSpan(static_cast<const int64_t*>(batch.fields[field.field]),
                             static_cast<size_t>(batch.num_examples));
}

}  // namespace

BatchKeys::BatchKeys(const SliceTable* slices, std::vector<TableLookups> lookups)
    : slices_(*slices), lookups_(std::move(lookups)), tables_(lookups_.size()) {
  for (size_t t = 0; t < lookups_.size(); ++t) {
    tables_[t].begins.resize(slices_.num_buckets_of(lookups_[t].table) + 1);
    tables_[t].places.resize(lookups_[t].fields.size());
  }
}

absl::Status BatchKeys::Update(const LoadedBatch& batch) {
  epoch_ = batch.epoch;
  index_ = batch.index;
  for (size_t t = 0; t < lookups_.size(); ++t) {
    RETURN_IF_ERROR(FindKeys(batch, lookups_[t], &tables_[t]));
  }
  return absl::OkStatus();
}

void BatchKeys::Take(uint32_t epoch, int64_t index,
                     absl::Span<const absl::Span<const uint64_t>> keys) {
  epoch_ = epoch;
  index_ = index;
  for (size_t t = 0; t < lookups_.size(); ++t) {
    found_.assign(keys[t].begin(), keys[t].end());
    SortByBucket(lookups_[t].table, &tables_[t]);
    tables_[t].places.assign(1, place_of_);
  }
}

absl::Status BatchKeys::FindKeys(const LoadedBatch& batch, const TableLookups& lookups,
                                 TableKeys* out) {
  size_t num_keys = 0;
  for (const KeyField& field : lookups.fields) num_keys += KeysIn(batch, field).size();
  if (num_keys > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", batch.index, " has ", num_keys,
                     " keys for one table, more than 2^31 - 1; use smaller batches"));
  }
  uint32_t bits = 4;
  while ((size_t{1} << bits) < 2 * num_keys) ++bits;
  cell_shift_ = 64 - bits;
  cells_.assign(size_t{1} << bits, 0);
  found_.clear();
  for (size_t f = 0; f < lookups.fields.size(); ++f) {
    const absl::Span<const int64_t> keys = KeysIn(batch, lookups.fields[f]);
    std::vector<int32_t>& places = out->places[f];
    places.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      places[i] = static_cast<int32_t>(FindOrAddNumber(static_cast<uint64_t>(keys[i])));
    }
  }
  SortByBucket(lookups.table, out);
  for (std::vector<int32_t>& places : out->places) {
    for (int32_t& place : places) place = place_of_[static_cast<size_t>(place)];
  }
  return absl::OkStatus();
}

uint32_t BatchKeys::FindOrAddNumber(uint64_t key) {
  const size_t mask = cells_.size() - 1;
  for (size_t cell = (key * kMultiplier) >> cell_shift_;; cell = (cell + 1) & mask) {
    const uint32_t number = cells_[cell];
    if (number == 0) {
      found_.push_back(key);
      cells_[cell] = static_cast<uint32_t>(found_.size());
      return cells_[cell] - 1;
    }
    if (found_[number - 1] == key) return number - 1;
  }
}

void BatchKeys::SortByBucket(uint32_t table, TableKeys* out) {
  const uint32_t first_slice = slices_.first_slice_of(table);
  std::vector<uint32_t>& begins = out->begins;
  std::fill(begins.begin(), begins.end(), 0);
  bucket_of_.resize(found_.size());
  for (size_t i = 0; i < found_.size(); ++i) {
    bucket_of_[i] = slices_.BucketOf(table, found_[i]) - first_slice;
    ++begins[bucket_of_[i] + 1];
  }
  for (size_t b = 1; b < begins.size(); ++b) begins[b] += begins[b - 1];
  // Each key to its bucket: begins[b] moves to the end of bucket b, where bucket b + 1 begins.
  sorted_.resize(found_.size());
  for (size_t i = 0; i < found_.size(); ++i) {
    sorted_[begins[bucket_of_[i]]++] = {found_[i], static_cast<uint32_t>(i)};
  }
  for (size_t b = begins.size() - 1; b > 0; --b) begins[b] = begins[b - 1];
  begins[0] = 0;
  const auto at = [this](uint32_t place) {
    return sorted_.begin() + static_cast<ptrdiff_t>(place);
  };
  for (size_t b = 0; b + 1 < begins.size(); ++b) {
    std::sort(at(begins[b]), at(begins[b + 1]),
              [](const Found& a, const Found& other) { return a.key < other.key; });
  }
  out->keys.resize(found_.size());
  place_of_.resize(found_.size());
  for (size_t i = 0; i < sorted_.size(); ++i) {
    out->keys[i] = sorted_[i].key;
    place_of_[sorted_[i].number] = static_cast<int32_t>(i);
  }
}

}  // namespace shoal
