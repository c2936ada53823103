#include "runtime/tables/bucket.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "ml/optim/all_finite.h"

namespace shoal {
namespace {

// The entries of the index that each update examines for idle rows, for each row that it touches.
constexpr size_t kScannedPerRow = 4;
constexpr size_t kScannedAtLeast = 64;

}  // namespace

PushOutcome CheckRowGradients(const RowGradients& rows, size_t dim) {
  for (size_t i = 1; i < rows.keys.size(); ++i) {
    if (rows.keys[i - 1] >= rows.keys[i]) return PushOutcome::kCorrupt;
  }
  return AllFinite(rows.gradients, rows.keys.size() * dim) ? PushOutcome::kAccepted
                                                           : PushOutcome::kNonFinite;
}

Bucket::Bucket(const TableUpdater* updater, SlabPool* pool, uint32_t max_positions)
    : updater_(*updater),
      dim_(updater->dim()),
      slabs_(pool),
      scratch_(*updater),
      sync_(max_positions),
      staged_(max_positions) {
  CHECK_EQ(pool->row_floats(), updater->row_floats());
}

void Bucket::Reset(uint64_t version, uint32_t num_positions) {
  index_.Clear();
  slabs_.Clear();
  num_rows_ = 0;
  scanned_ = 0;
  for (Staged& staged : staged_) staged = Staged();
  sums_.Clear();
  undo_.Clear();
  sync_.Reset(version, version, num_positions);
}

void Bucket::Load(uint64_t key, uint64_t touched, absl::Span<const float> row) {
  CHECK_EQ(row.size(), updater_.row_floats());
  const uint32_t number = slabs_.Take();
  std::memcpy(slabs_[number], row.data(), row.size() * sizeof(float));
  index_.Insert(key, number, static_cast<uint32_t>(touched));
  ++num_rows_;
}

void Bucket::LoadCount(uint64_t key, uint32_t count) { index_.Insert(key, kNoRow, count); }

uint64_t Bucket::bytes() const {
  uint64_t staged = 0;
  for (const Staged& one : staged_) {
    staged += one.keys.capacity() * sizeof(uint64_t) + one.gradients.capacity() * sizeof(float);
  }
  return index_.bytes() + staged + sums_.bytes() + undo_.bytes();
}

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

PushOutcome Bucket::Push(uint64_t step, uint32_t position, uint32_t examples,
                         const RowGradients& rows) {
  switch (sync_.Classify(step, position)) {
    case SyncSlice::Arrival::kDuplicate:
      return PushOutcome::kDuplicate;
    case SyncSlice::Arrival::kAhead:
      return PushOutcome::kAhead;
    case SyncSlice::Arrival::kNext:
      AddNext(examples, rows);
      TakeStaged();
      return PushOutcome::kAccepted;
    case SyncSlice::Arrival::kLater:
      break;
  }
  Staged& staged = staged_[position];
  if (position < sync_.next_position() || staged.passed_over) return PushOutcome::kWithheld;
  staged.keys.assign(rows.keys.begin(), rows.keys.end());
  staged.gradients.assign(rows.gradients, rows.gradients + rows.keys.size() * dim_);
  staged.examples = examples;
  sync_.Keep(position);
  return PushOutcome::kAccepted;
}

void Bucket::PassOver(uint32_t position) {
  if (sync_.Has(version(), position) || position < sync_.next_position()) return;
  staged_[position].passed_over = true;
  TakeStaged();
}

void Bucket::AddNext(uint32_t examples, const RowGradients& rows) {
  AddToSums(rows, static_cast<float>(examples));
  sync_.AddNext(examples);
}

void Bucket::TakeStaged() {
  while (!sync_.AllThrough()) {
    Staged& staged = staged_[sync_.next_position()];
    if (staged.passed_over) {
      staged.passed_over = false;
      sync_.PassOverNext();
    } else if (sync_.HasArrived(sync_.next_position())) {
      AddNext(staged.examples, {staged.keys, staged.gradients.data()});
      staged.keys.clear();
      staged.gradients.clear();
    } else {
      return;
    }
  }
}

// sum = weight * gradient for a key that is new in this step, else sum += weight * gradient: one
// multiplication and one addition, as FoldPayload does for dense variables.
void Bucket::AddToSums(const RowGradients& rows, float weight) {
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

bool Bucket::Apply(float learning_rate, bool is_scaled, uint32_t num_positions_of_next_step) {
  DCHECK(IsComplete());
  if (sync_.num_added() == 0) {
    sync_.Advance(/*made_value=*/false, num_positions_of_next_step);
    return true;
  }
  const float scale = is_scaled ? 1.0f / static_cast<float>(sync_.examples()) : 1.0f;
  if (!ApplySums(learning_rate, scale)) return false;
  sync_.Advance(/*made_value=*/true, num_positions_of_next_step);
  return true;
}

bool Bucket::ApplyNow(const RowGradients& rows, float learning_rate) {
  AddToSums(rows, 1);
  if (!ApplySums(learning_rate, 1)) return false;
  sync_.Advance(/*made_value=*/true, 0);
  return true;
}

bool Bucket::ApplySums(float learning_rate, float scale) {
  std::swap(undo_.index, sums_.index);
  std::swap(undo_.keys, sums_.keys);
  undo_.before.resize(undo_.keys.size());
  undo_.stamps.resize(undo_.keys.size());
  undo_.rows.resize(undo_.keys.size() * updater_.row_floats());
  TableUpdater::Update update;
  update.step = static_cast<int64_t>(version()) + 1;
  update.learning_rate = learning_rate;
  update.scale = scale;
  for (size_t begin = 0; begin < undo_.keys.size(); begin += TableUpdater::kBlockRows) {
    const size_t end = std::min(begin + TableUpdater::kBlockRows, undo_.keys.size());
    if (ApplyBlock(begin, end, update)) continue;
    RollBack(end);
    sums_.Clear();
    undo_.Clear();
    sync_.Reset(version(), sync_.value_version(), 0);
    return false;
  }
  RemoveSomeIdle(kScannedAtLeast + kScannedPerRow * undo_.keys.size());
  sums_.Clear();
  return true;
}

bool Bucket::ApplyBlock(size_t begin, size_t end, const TableUpdater::Update& update) {
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
  const auto stamp = static_cast<uint32_t>(version() + 1);
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
    if (!IsIdle(entry->stamp, version())) {
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
void Bucket::RemoveSomeIdle(size_t num_entries) {
  if (updater_.options().idle_updates == 0) return;
  const uint64_t oldest_readable = sync_.value_version();  // It becomes the previous version.
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

Bucket::Value Bucket::Find(uint64_t version) const {
  switch (sync_.Find(version)) {
    case SyncSlice::Value::kCurrent:
      return Value::kCurrent;
    case SyncSlice::Value::kPrevious:
      return Value::kPrevious;
    case SyncSlice::Value::kNotYet:
      return Value::kNotYet;
    case SyncSlice::Value::kGone:
      break;
  }
  return Value::kGone;
}

void Bucket::Read(uint64_t version, absl::Span<const uint64_t> keys, float* values) const {
  constexpr size_t kGroup = 32;
  const RowIndex::Entry* entries[kGroup];
  const bool is_previous = Find(version) == Value::kPrevious;
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
