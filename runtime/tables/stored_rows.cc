#include "runtime/tables/stored_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace shoal {
namespace {

// The rows that a cut copies while it holds the mutex of the bucket.
constexpr size_t kRowsAtOnce = 512;
constexpr size_t kPrefetched = 16;
// Shorter vectors are sorted by comparisons.
constexpr size_t kRadixSortFrom = 1024;
constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// Returns whether the key was touched after version `since`; without one, all keys are selected.
bool IsSelected(const RowIndex::Entry& entry, std::optional<uint64_t> since) {
  return !since.has_value() || IsTouchedAfter(StoredRows::TouchedOf(entry.stamp), *since);
}

}  // namespace

StoredRows::StoredRows(std::shared_ptr<SlabPool> pool, uint32_t idle_updates)
    : pool(std::move(pool)), idle_updates(idle_updates), slabs(this->pool.get()) {}

void StoredRows::KeepForCuts(const RowIndex::Entry& before, const float* row) {
  for (BucketCut* const cut : cuts) cut->Keep(before, row);
}

uint64_t StoredRows::bytes_of_cuts() const {
  uint64_t bytes = 0;
  for (const BucketCut* const cut : cuts) bytes += cut->bytes();
  return bytes;
}

BucketCut::BucketCut(std::shared_ptr<StoredRows> rows, uint64_t version)
    : rows_(std::move(rows)), version_(version), row_floats_(rows_->pool->row_floats()) {
  MutexLock lock(&rows_->mutex);
  size_ = {rows_->num_rows, rows_->index.size() - rows_->num_rows};
  rows_->cuts.push_back(this);
}

BucketCut::~BucketCut() { Release(); }

void BucketCut::Release() {
  if (rows_ == nullptr) return;
  {
    MutexLock lock(&rows_->mutex);
    rows_->cuts.erase(std::find(rows_->cuts.begin(), rows_->cuts.end(), this));
    absl::flat_hash_map<uint64_t, RowIndex::Entry>().swap(old_);
    std::vector<float>().swap(old_rows_);
  }
  rows_.reset();
}

uint64_t BucketCut::bytes() const {
  return old_.capacity() * (sizeof(uint64_t) + sizeof(RowIndex::Entry) + 1) +
         old_rows_.capacity() * sizeof(float);
}

void BucketCut::Keep(const RowIndex::Entry& before, const float* row) {
  const auto [kept, is_new] = old_.try_emplace(before.key, before);
  // An idle row is not part of the cut.
  const bool had_row = before.stamp != 0 && before.has_row();
  if (!is_new || !had_row || rows_->IsIdle(before.stamp, version_)) return;
  kept->second.number = static_cast<uint32_t>(old_rows_.size() / row_floats_);
  old_rows_.insert(old_rows_.end(), row, row + row_floats_);
}

template <typename Visit>
void BucketCut::ForEach(Visit visit) const {
  const auto visit_unless_idle = [&](const RowIndex::Entry& entry) {
    if (!rows_->IsIdle(entry.stamp, version_)) visit(entry);
  };
  if (old_.empty()) {
    rows_->index.ForEach(visit_unless_idle);
    return;
  }
  rows_->index.ForEach([&](const RowIndex::Entry& entry) {
    if (old_.find(entry.key) == old_.end()) visit_unless_idle(entry);
  });
  for (const auto& [key, entry] : old_) {
    if (entry.stamp != 0) visit_unless_idle(entry);
  }
}

BucketCut::Size BucketCut::GetSize(std::optional<uint64_t> since) const {
  CHECK(rows_ != nullptr);
  if (!since.has_value() && rows_->idle_updates == 0) return size_;
  Size size;
  MutexLock lock(&rows_->mutex);
  ForEach([&](const RowIndex::Entry& entry) {
    if (!IsSelected(entry, since)) return;
    ++(entry.has_row() ? size.rows : size.counted);
  });
  return size;
}

BucketCut::Selection BucketCut::Select(std::optional<uint64_t> since) const {
  CHECK(rows_ != nullptr);
  Selection selection;
  {
    MutexLock lock(&rows_->mutex);
    if (!since.has_value()) {
      selection.rows.reserve(size_.rows);
      selection.counted.reserve(size_.counted);
    }
    ForEach([&](const RowIndex::Entry& entry) {
      if (!IsSelected(entry, since)) return;
      (entry.has_row() ? selection.rows : selection.counted).push_back(entry);
    });
  }
  SortByKey(&selection.rows);
  SortByKey(&selection.counted);
  return selection;
}

void BucketCut::Read(const Selection& selection, BucketRows* out) const {
  CHECK(rows_ != nullptr);
  const size_t n = selection.rows.size();
  out->keys.resize(n);
  out->touched.resize(n);
  out->rows.resize(n * row_floats_);
  for (size_t i = 0; i < n; ++i) {
    out->keys[i] = selection.rows[i].key;
    out->touched[i] = StoredRows::TouchedOf(selection.rows[i].stamp);
  }
  for (size_t begin = 0; begin < n; begin += kRowsAtOnce) {
    const size_t end = std::min(begin + kRowsAtOnce, n);
    MutexLock lock(&rows_->mutex);
    for (size_t i = begin; i < end; ++i) {
      // A key that changes after the selection is in old_ from then on, also if its row's number
      // has another owner now. Until then the number stays that of the selected entry.
      const auto old = old_.find(selection.rows[i].key);
      const float* const row = old == old_.end()
                                   ? rows_->slabs[selection.rows[i].row()]
                                   : old_rows_.data() + old->second.row() * row_floats_;
      if (i + kPrefetched < end && old_.empty()) {
        const char* const later =
            reinterpret_cast<const char*>(rows_->slabs[selection.rows[i + kPrefetched].row()]);
        for (size_t at = 0; at < row_floats_ * sizeof(float); at += 64) {
          __builtin_prefetch(later + at);
        }
      }
      std::memcpy(out->rows.data() + i * row_floats_, row, row_floats_ * sizeof(float));
    }
  }
  out->counted_keys.clear();
  out->counts.clear();
  out->counted_touched.clear();
  for (const RowIndex::Entry& entry : selection.counted) {
    out->counted_keys.push_back(entry.key);
    out->counts.push_back(entry.count());
    out->counted_touched.push_back(StoredRows::TouchedOf(entry.stamp));
  }
}

BucketRows BucketCut::ReadAll() const {
  BucketRows rows;
  Read(Select(std::nullopt), &rows);
  return rows;
}

// Sorts by the digits in which keys differ, from the lowest to the highest.
void SortByKey(std::vector<RowIndex::Entry>* entries) {
  if (entries->size() < kRadixSortFrom) {
    std::sort(entries->begin(), entries->end(),
              [](const RowIndex::Entry& a, const RowIndex::Entry& b) { return a.key < b.key; });
    return;
  }
  uint64_t varying = 0;
  for (const RowIndex::Entry& entry : *entries) varying |= entry.key ^ entries->front().key;
  std::vector<RowIndex::Entry> sorted(entries->size());
  std::vector<size_t> places(kDigits);
  for (int shift = 0; shift < 64; shift += kDigitBits) {
    if (((varying >> shift) & (kDigits - 1)) == 0) continue;
    const auto digit_of = [shift](const RowIndex::Entry& entry) {
      return static_cast<size_t>(entry.key >> shift) & (kDigits - 1);
    };
    std::fill(places.begin(), places.end(), 0);
    for (const RowIndex::Entry& entry : *entries) ++places[digit_of(entry)];
    size_t place = 0;
    for (size_t& count : places) place += std::exchange(count, place);
    for (const RowIndex::Entry& entry : *entries) sorted[places[digit_of(entry)]++] = entry;
    entries->swap(sorted);
  }
}

}  // namespace shoal
