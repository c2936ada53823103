#include "runtime/variables/bucket.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/optim/gradient_clipping.h"

namespace shoal {
namespace {

// The entries of the index that each update examines for idle rows, for each row that it touches.
constexpr size_t kScannedPerRow = 4;
constexpr size_t kScannedAtLeast = 64;

}  // namespace

Bucket::Bucket(const TableUpdater* updater, SlabPool* pool)
    : updater_(*updater), dim_(updater->dim()), slabs_(pool), scratch_(*updater) {
  CHECK_EQ(pool->row_floats(), updater->row_floats());
}

absl::Status Bucket::Load(uint64_t version, const BucketRows& rows) {
  RETURN_IF_ERROR(CheckBucketRows(rows, version, updater_.row_floats()));
  index_.Clear();
  slabs_.Clear();
  scanned_ = 0;
  sums_.Clear();
  undo_.Clear();
  num_rows_ = rows.keys.size();
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const uint32_t number = slabs_.Take();
    std::memcpy(slabs_[number], rows.rows.data() + i * updater_.row_floats(),
                updater_.row_floats() * sizeof(float));
    index_.Insert(rows.keys[i], number, rows.touched[i]);
  }
  for (size_t i = 0; i < rows.counted_keys.size(); ++i) {
    index_.Insert(rows.counted_keys[i], kNoRow, rows.counts[i]);
  }
  return absl::OkStatus();
}

BucketRows Bucket::Save(uint64_t version) const {
  std::vector<const RowIndex::Entry*> stored, counted;
  index_.ForEach([&](const RowIndex::Entry& entry) {
    if (!entry.has_row()) {
      counted.push_back(&entry);
    } else if (!IsIdle(entry.stamp, version)) {
      stored.push_back(&entry);
    }
  });
  const auto by_key = [](const RowIndex::Entry* a, const RowIndex::Entry* b) {
    return a->key < b->key;
  };
  std::sort(stored.begin(), stored.end(), by_key);
  std::sort(counted.begin(), counted.end(), by_key);
  const size_t row_floats = updater_.row_floats();
  BucketRows saved;
  saved.rows.resize(stored.size() * row_floats);
  for (const RowIndex::Entry* entry : stored) {
    std::memcpy(saved.rows.data() + saved.keys.size() * row_floats, slabs_[entry->row()],
                row_floats * sizeof(float));
    saved.keys.push_back(entry->key);
    saved.touched.push_back(entry->stamp);
  }
  for (const RowIndex::Entry* entry : counted) {
    saved.counted_keys.push_back(entry->key);
    saved.counts.push_back(entry->stamp);
  }
  return saved;
}

uint64_t Bucket::bytes() const { return index_.bytes() + sums_.bytes() + undo_.bytes(); }

uint64_t Bucket::Sums::bytes() const {
  return index.bytes() + keys.capacity() * sizeof(uint64_t) + gradients.capacity() * sizeof(float);
}

void Bucket::Sums::Clear() {
  index.Clear();
  keys.clear();
  gradients.clear();
}

uint64_t Bucket::Undo::bytes() const {
  return index.bytes() + keys.capacity() * (sizeof(uint64_t) + sizeof(Before) + sizeof(uint32_t)) +
         rows.capacity() * sizeof(float);
}

void Bucket::Undo::Clear() {
  index.Clear();
  keys.clear();
  before.clear();
  stamps.clear();
}

// sum = weight * gradient for a key that is new in this step, else sum += weight * gradient: one
// multiplication and one addition, as FoldPayload does for dense variables.
void Bucket::Add(const Payload& payload, float weight, bool /*is_first*/) {
  const RowGradients rows = DecodeRows(payload, dim_, &row_scratch_).value();
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const float* const gradient = rows.gradients + i * dim_;
    const RowIndex::Entry* const entry = sums_.index.Find(rows.keys[i]);
    if (entry == nullptr) {
      sums_.index.Insert(rows.keys[i], static_cast<uint32_t>(sums_.keys.size()), 1);
      sums_.keys.push_back(rows.keys[i]);
      const size_t end = sums_.gradients.size();
      sums_.gradients.resize(end + dim_);
      for (size_t e = 0; e < dim_; ++e) sums_.gradients[end + e] = weight * gradient[e];
    } else {
      float* const sum = sums_.gradients.data() + entry->row() * dim_;
      for (size_t e = 0; e < dim_; ++e) sum[e] += weight * gradient[e];
    }
  }
}

double Bucket::SquaresOfSums() const { return SumOfSquares(sums_.gradients); }

bool Bucket::Apply(const Step& step) {
  std::swap(undo_.index, sums_.index);
  std::swap(undo_.keys, sums_.keys);
  undo_.before.resize(undo_.keys.size());
  undo_.stamps.resize(undo_.keys.size());
  undo_.rows.resize(undo_.keys.size() * updater_.row_floats());
  TableUpdater::Update update;
  update.step = static_cast<int64_t>(step.version) + 1;
  update.learning_rate = step.learning_rate;
  update.scale = step.scale;
  for (size_t begin = 0; begin < undo_.keys.size(); begin += TableUpdater::kBlockRows) {
    const size_t end = std::min(begin + TableUpdater::kBlockRows, undo_.keys.size());
    if (ApplyBlock(begin, end, update, step.version)) continue;
    RollBack(end);
    sums_.Clear();
    undo_.Clear();
    return false;
  }
  RemoveSomeIdle(kScannedAtLeast + kScannedPerRow * undo_.keys.size(), step.value_version);
  sums_.Clear();
  return true;
}

bool Bucket::ApplyBlock(size_t begin, size_t end, const TableUpdater::Update& update,
                        uint64_t version) {
  const RowIndex::Entry* entries[TableUpdater::kBlockRows];
  float* rows[TableUpdater::kBlockRows];
  const size_t n = end - begin;
  index_.Find({undo_.keys.data() + begin, n}, entries);
  for (size_t r = 0; r < n; ++r) {
    if (entries[r] == nullptr || !entries[r]->has_row()) continue;
    const char* const row = reinterpret_cast<const char*>(slabs_[entries[r]->row()]);
    for (size_t at = 0; at < updater_.row_floats() * sizeof(float); at += 64) {
      __builtin_prefetch(row + at, 1);
    }
  }
  // Rows that are stored first: an insertion may move entries.
  const auto stamp = static_cast<uint32_t>(version + 1);
  bool all_are_stored = true;
  for (size_t r = 0; r < n; ++r) {
    rows[r] = nullptr;
    if (entries[r] == nullptr) {
      all_are_stored = false;
      undo_.before[begin + r] = Undo::kAbsent;
      continue;
    }
    auto* const entry = const_cast<RowIndex::Entry*>(entries[r]);
    undo_.stamps[begin + r] = entry->stamp;
    undo_.before[begin + r] = entry->has_row() ? Undo::kStored : Undo::kCounted;
    if (!entry->has_row()) {
      all_are_stored = false;
      continue;
    }
    rows[r] = slabs_[entry->row()];
    std::memcpy(undo_.row(begin + r, updater_.row_floats()), rows[r],
                updater_.row_floats() * sizeof(float));
    if (!IsIdle(entry->stamp, version)) {
      entry->stamp = stamp;
    } else if (updater_.options().min_count <= 1) {
      entry->stamp = stamp;
      updater_.FillInitialRow(entry->key, rows[r]);
    } else {  // Its key has to be admitted again.
      slabs_.GiveBack(entry->row());
      --num_rows_;
      entry->row_plus_one = 0;
      entry->stamp = 1;
      rows[r] = nullptr;
      undo_.before[begin + r] = Undo::kIdle;
    }
  }
  const float* gradients = sums_.gradients.data() + begin * dim_;
  if (all_are_stored && std::find(rows, rows + n, nullptr) == rows + n) {
    return updater_.Apply(update, gradients, {rows, n}, &scratch_);
  }
  for (size_t r = 0; r < n; ++r) {
    const Undo::Before before = undo_.before[begin + r];
    if (before == Undo::kAbsent || before == Undo::kCounted) rows[r] = Admit(begin + r, stamp);
  }
  // The gradients of the rows that are stored now, side by side.
  some_gradients_.resize(TableUpdater::kBlockRows * dim_);
  size_t stored = 0;
  for (size_t r = 0; r < n; ++r) {
    if (rows[r] == nullptr) continue;
    std::memcpy(some_gradients_.data() + stored * dim_, gradients + r * dim_, dim_ * sizeof(float));
    rows[stored++] = rows[r];
  }
  return updater_.Apply(update, some_gradients_.data(), {rows, stored}, &scratch_);
}

float* Bucket::Admit(size_t place, uint32_t stamp) {
  const uint64_t key = undo_.keys[place];
  RowIndex::Entry* entry = nullptr;
  uint32_t count = 1;
  if (undo_.before[place] == Undo::kCounted) {
    entry = index_.Find(key);
    count = ++entry->stamp;
  }
  if (count < updater_.options().min_count) {
    if (entry == nullptr) index_.Insert(key, kNoRow, count);
    return nullptr;
  }
  const uint32_t row = slabs_.Take();
  ++num_rows_;
  if (entry == nullptr) {
    index_.Insert(key, row, stamp);
  } else {
    entry->row_plus_one = row + 1;
    entry->stamp = stamp;
  }
  updater_.FillInitialRow(key, slabs_[row]);
  return slabs_[row];
}

void Bucket::RollBack(size_t num_keys) {
  for (size_t i = 0; i < num_keys; ++i) {
    RowIndex::Entry* entry = index_.Find(undo_.keys[i]);
    const bool was_stored = undo_.before[i] == Undo::kStored || undo_.before[i] == Undo::kIdle;
    if (!was_stored && entry->has_row()) {
      slabs_.GiveBack(entry->row());
      --num_rows_;
      entry->row_plus_one = 0;
    }
    if (was_stored && !entry->has_row()) {
      entry->row_plus_one = slabs_.Take() + 1;
      ++num_rows_;
    }
    if (undo_.before[i] == Undo::kAbsent) {
      index_.Erase(undo_.keys[i]);
      continue;
    }
    entry->stamp = undo_.stamps[i];
    if (!was_stored) continue;
    std::memcpy(slabs_[entry->row()], undo_.row(i, updater_.row_floats()),
                updater_.row_floats() * sizeof(float));
  }
}

bool Bucket::IsIdle(uint32_t stamp, uint64_t version) const {
  const uint32_t most = updater_.options().idle_updates;
  return most > 0 && version > uint64_t{stamp} + most;
}

// A row that is idle reads as one that was never trained from then on, so its memory can be reused
// at any time after that, and which rows this update finds does not matter.
void Bucket::RemoveSomeIdle(size_t num_entries, uint64_t oldest_readable) {
  if (updater_.options().idle_updates == 0) return;
  index_.Scan(&scanned_, num_entries, [&](const RowIndex::Entry& entry) {
    if (entry.has_row() && IsIdle(entry.stamp, oldest_readable)) idle_.push_back(entry.key);
  });
  for (const uint64_t key : idle_) {
    slabs_.GiveBack(index_.Find(key)->row());
    index_.Erase(key);
    --num_rows_;
  }
  idle_.clear();
}

void Bucket::Read(uint64_t version, bool is_previous, absl::Span<const uint64_t> keys,
                  float* values) const {
  constexpr size_t kGroup = 32;
  const RowIndex::Entry* entries[kGroup];
  for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
    const size_t n = std::min(kGroup, keys.size() - begin);
    index_.Find(keys.subspan(begin, n), entries);
    for (size_t i = 0; i < n; ++i) {
      if (entries[i] != nullptr && entries[i]->has_row()) {
        __builtin_prefetch(slabs_[entries[i]->row()]);
      }
    }
    for (size_t i = 0; i < n; ++i) {
      const uint64_t key = keys[begin + i];
      const float* row = nullptr;
      if (entries[i] != nullptr && entries[i]->has_row() && !IsIdle(entries[i]->stamp, version)) {
        row = slabs_[entries[i]->row()];
      }
      if (is_previous) {
        const RowIndex::Entry* const touched = undo_.index.Find(key);
        if (touched != nullptr) row = ReadUndo(touched->row(), version);
      }
      float* const value = values + (begin + i) * dim_;
      if (row == nullptr) {
        updater_.FillInitialValue(key, value);
      } else {
        std::memcpy(value, row, dim_ * sizeof(float));
      }
    }
  }
}

const float* Bucket::ReadUndo(size_t place, uint64_t version) const {
  const bool was_stored =
      undo_.before[place] == Undo::kStored || undo_.before[place] == Undo::kIdle;
  if (!was_stored || IsIdle(undo_.stamps[place], version)) return nullptr;
  return undo_.rows.data() + place * updater_.row_floats();
}

}  // namespace shoal
