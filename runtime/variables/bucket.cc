#include "runtime/variables/bucket.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/optim/gradient_clipping.h"
#include "runtime/tables/copy_floats.h"

namespace shoal {
namespace {

// The entries of the index that each update examines for idle rows, for each row that it touches.
constexpr size_t kScannedPerRow = 4;
constexpr size_t kScannedAtLeast = 64;
// Memory of sums and undo lists is kept for so many times the keys of a usual step.
constexpr size_t kKeptForKey = 4;
constexpr size_t kKeptAtLeast = 64;

// Gives the memory of an array back if that is for more than `most` elements.
template <typename T>
void KeepAtMost(size_t most, std::vector<T>* array) {
  if (array->capacity() > most) std::vector<T>().swap(*array);
}

template <typename T>
void ClearAndKeep(size_t most, std::vector<T>* array) {
  KeepAtMost(most, array);
  array->clear();
}

}  // namespace

Bucket::Bucket(const TableUpdater* updater, std::shared_ptr<SlabPool> pool, TableCounts* counts,
               BucketScratch* scratch)
    : updater_(*updater),
      dim_(updater->dim()),
      counts_(counts),
      rows_(std::make_shared<StoredRows>(std::move(pool), updater->options().idle_updates)),
      scratch_(*scratch) {
  CHECK_EQ(rows_->pool->row_floats(), updater->row_floats());
  Count();
}

absl::Status Bucket::Load(uint64_t version, const BucketRows& rows) {
  RETURN_IF_ERROR(CheckBucketRows(rows, version, updater_.row_floats()));
  // The old rows are freed first, unless a cut still needs them.
  const std::shared_ptr<SlabPool> pool = rows_->pool;
  rows_.reset();
  rows_ = std::make_shared<StoredRows>(pool, updater_.options().idle_updates);
  scanned_ = 0;
  sums_.Clear(MostRowsKept(), dim_);
  undo_.Clear(MostRowsKept());
  rows_->num_rows = rows.keys.size();
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const uint32_t number = rows_->slabs.Take();
    std::memcpy(rows_->slabs[number], rows.rows.data() + i * updater_.row_floats(),
                updater_.row_floats() * sizeof(float));
    rows_->index.Insert(rows.keys[i], number, StoredRows::StampOf(rows.touched[i]));
  }
  for (size_t i = 0; i < rows.counted_keys.size(); ++i) {
    if (rows.counts[i] == 0) continue;
    rows_->index.Insert(rows.counted_keys[i], RowIndex::NumberOfCount(rows.counts[i]),
                        StoredRows::StampOf(rows.counted_touched[i]));
  }
  rows_->index.ContinueGrowth(SIZE_MAX);
  Count();
  return absl::OkStatus();
}

std::shared_ptr<BucketCut> Bucket::Cut(uint64_t version) const {
  return std::make_shared<BucketCut>(rows_, version);
}

uint64_t Bucket::bytes() const {
  return rows_->index.bytes() + sums_.bytes() + undo_.bytes() + bytes_of_cuts();
}

uint64_t Bucket::bytes_of_cuts() const {
  MutexLock lock(&rows_->mutex);
  return rows_->bytes_of_cuts();
}

void Bucket::Count() {
  const auto rows = static_cast<int64_t>(rows_->num_rows);
  const auto bytes = static_cast<int64_t>(this->bytes());
  counts_->Add(rows - counted_rows_, bytes - counted_bytes_);
  counted_rows_ = rows;
  counted_bytes_ = bytes;
}

uint64_t Bucket::Sums::bytes() const { return keys.bytes() + gradients.capacity() * sizeof(float); }

void Bucket::Sums::Clear(size_t most_rows, size_t dim) {
  keys.Clear(most_rows);
  ClearAndKeep(most_rows * dim, &gradients);
}

uint64_t Bucket::Undo::bytes() const {
  return keys.bytes() + entries.capacity() * sizeof(RowIndex::Entry) +
         rows.capacity() * sizeof(float);
}

void Bucket::Undo::Clear(size_t most_rows) {
  keys.Clear(most_rows);
  entries.clear();
}

void Bucket::Undo::StartUpdate(size_t most_rows, size_t row_floats) {
  KeepAtMost(most_rows, &entries);
  KeepAtMost(most_rows * row_floats, &rows);
  entries.resize(keys.size());
  rows.resize(keys.size() * row_floats);
}

size_t Bucket::MostRowsKept() const { return std::max(kKeptAtLeast, kKeptForKey * usual_keys_); }

// sum = weight * gradient for a key that is new in this step, else sum += weight * gradient: one
// multiplication and one addition, as FoldPayload does for dense variables.
void Bucket::Add(const Payload& payload, float weight, bool /*is_first*/) {
  const RowGradients rows = DecodeRows(payload, dim_, &scratch_.rows).value();
  // The update that may follow at once looks these keys up first.
  Prefetch(rows.keys.subspan(0, 2 * TableUpdater::kBlockRows));
  std::vector<float>& sums = sums_.gradients;
  if (sums_.keys.empty()) {  // The keys of one contribution differ.
    sums_.keys.Assign(rows.keys);
    sums.assign(rows.gradients, rows.gradients + rows.keys.size() * dim_);
    for (float& sum : sums) sum = weight * sum;
    return;
  }
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const float* const gradient = rows.gradients + i * dim_;
    const size_t place = sums_.keys.FindOrAdd(rows.keys[i]);
    if (place * dim_ == sums.size()) {
      sums.resize(sums.size() + dim_);
      for (size_t e = 0; e < dim_; ++e) sums[place * dim_ + e] = weight * gradient[e];
    } else {
      float* const sum = sums.data() + place * dim_;
      for (size_t e = 0; e < dim_; ++e) sum[e] += weight * gradient[e];
    }
  }
}

double Bucket::SquaresOfSums() const { return SumOfSquares(sums_.gradients); }

bool Bucket::Apply(const Step& step) {
  const bool is_applied = UpdateRows(step);
  Count();
  return is_applied;
}

// Three waits for memory overlap, as in Read: while the rows of a block are updated, those of the
// next block are on their way, and the index entries of the one after it.
bool Bucket::UpdateRows(const Step& step) {
  std::swap(undo_.keys, sums_.keys);
  const size_t num_keys = undo_.keys.size();
  usual_keys_ = std::max(num_keys, usual_keys_ - usual_keys_ / 16);
  undo_.StartUpdate(MostRowsKept(), updater_.row_floats());
  TableUpdater::Update update;
  update.step = static_cast<int64_t>(step.version) + 1;
  update.learning_rate = step.learning_rate;
  update.scale = step.scale;
  MutexLock lock(&rows_->mutex);
  constexpr size_t kBlockRows = TableUpdater::kBlockRows;
  const absl::Span<const uint64_t> keys = undo_.keys.all();
  Block blocks[2];
  Prefetch(keys.subspan(0, 2 * kBlockRows));
  FindBlock(0, &blocks[0]);
  for (size_t begin = 0, b = 0; begin < num_keys; begin += kBlockRows, ++b) {
    const Block& block = blocks[b % 2];
    Block& next = blocks[(b + 1) % 2];
    const size_t end = begin + block.size;
    Prefetch(keys.subspan(std::min(num_keys, end + kBlockRows), kBlockRows));
    FindBlock(end, &next);
    const size_t num_indexed = rows_->index.size();
    if (!ApplyBlock(block, update, step.version)) {
      KeepForCuts(end);  // A row may get another number.
      RollBack(end);
      sums_.Clear(MostRowsKept(), dim_);
      undo_.Clear(MostRowsKept());
      return false;
    }
    if (rows_->index.size() != num_indexed) FindBlock(end, &next);  // Insertions move entries.
  }
  KeepForCuts(num_keys);
  const size_t num_entries = kScannedAtLeast + kScannedPerRow * num_keys;
  RemoveSomeIdle(num_entries, step.value_version);
  rows_->index.ContinueGrowth(num_entries);
  sums_.Clear(MostRowsKept(), dim_);
  return true;
}

void Bucket::FindRows(absl::Span<const uint64_t> keys, size_t num_floats,
                      const RowIndex::Entry** entries) const {
  const size_t bytes = num_floats * sizeof(float);
  rows_->index.Find(keys, entries);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (entries[i] == nullptr || !entries[i]->has_row()) continue;
    const char* const row = reinterpret_cast<const char*>(rows_->slabs[entries[i]->row()]);
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);  // A row need not begin at a line.
  }
}

void Bucket::FindBlock(size_t begin, Block* block) const {
  const absl::Span<const uint64_t> keys =
      absl::MakeConstSpan(undo_.keys.all()).subspan(begin, TableUpdater::kBlockRows);
  block->begin = begin;
  block->size = keys.size();
  FindRows(keys, updater_.row_floats(), block->entries);
}

bool Bucket::ApplyBlock(const Block& block, const TableUpdater::Update& update, uint64_t version) {
  float* rows[TableUpdater::kBlockRows];
  const size_t begin = block.begin, n = block.size;
  const RowIndex::Entry* const* const entries = block.entries;
  // Rows that are stored first: an insertion may move entries.
  const uint32_t stamp = StoredRows::StampOf(version + 1);
  bool all_are_stored = true;
  for (size_t r = 0; r < n; ++r) {
    rows[r] = nullptr;
    RowIndex::Entry& before = undo_.entries[begin + r];
    if (entries[r] == nullptr || !entries[r]->has_row()) {
      all_are_stored = false;
      before = entries[r] == nullptr ? RowIndex::Entry() : *entries[r];
      before.key = undo_.keys.all()[begin + r];
      continue;
    }
    auto* const entry = const_cast<RowIndex::Entry*>(entries[r]);
    before = *entry;
    rows[r] = rows_->slabs[entry->row()];
    CopyFloats(rows[r], updater_.row_floats(), undo_.row(begin + r, updater_.row_floats()));
    if (!rows_->IsIdle(entry->stamp, version)) {
      entry->stamp = stamp;
    } else if (updater_.options().min_count <= 1) {
      entry->stamp = stamp;
      updater_.FillInitialRow(entry->key, rows[r]);
    } else {  // Its key has to be admitted again.
      rows_->slabs.GiveBack(entry->row());
      --rows_->num_rows;
      entry->number = RowIndex::NumberOfCount(1);
      entry->stamp = stamp;
      rows[r] = nullptr;
    }
  }
  const float* gradients = sums_.gradients.data() + begin * dim_;
  if (all_are_stored && std::find(rows, rows + n, nullptr) == rows + n) {
    return updater_.Apply(update, gradients, {rows, n}, &scratch_.update);
  }
  for (size_t r = 0; r < n; ++r) {
    if (!undo_.had_row(begin + r)) rows[r] = Admit(begin + r, version);
  }
  // The gradients of the rows that are stored now, side by side.
  std::vector<float>& some_gradients = scratch_.some_gradients;
  some_gradients.resize(TableUpdater::kBlockRows * dim_);
  size_t stored = 0;
  for (size_t r = 0; r < n; ++r) {
    if (rows[r] == nullptr) continue;
    CopyFloats(gradients + r * dim_, dim_, some_gradients.data() + stored * dim_);
    rows[stored++] = rows[r];
  }
  return updater_.Apply(update, some_gradients.data(), {rows, stored}, &scratch_.update);
}

float* Bucket::Admit(size_t place, uint64_t version) {
  const RowIndex::Entry& before = undo_.entries[place];
  const bool is_counted = before.stamp != 0;
  uint32_t count = 1;
  if (is_counted && !rows_->IsIdle(before.stamp, version)) count += before.count();
  const bool is_admitted = count >= updater_.options().min_count;
  const uint32_t number = is_admitted ? rows_->slabs.Take() : RowIndex::NumberOfCount(count);
  const uint32_t stamp = StoredRows::StampOf(version + 1);
  if (is_counted) {
    RowIndex::Entry* const entry = rows_->index.Find(before.key);
    entry->number = number;
    entry->stamp = stamp;
  } else {
    rows_->index.Insert(before.key, number, stamp);
  }
  if (!is_admitted) return nullptr;
  ++rows_->num_rows;
  updater_.FillInitialRow(before.key, rows_->slabs[number]);
  return rows_->slabs[number];
}

void Bucket::RollBack(size_t num_keys) {
  for (size_t i = 0; i < num_keys; ++i) {
    const RowIndex::Entry& before = undo_.entries[i];
    RowIndex::Entry* const entry = rows_->index.Find(before.key);
    const bool was_stored = undo_.had_row(i);
    if (!was_stored && entry->has_row()) {
      rows_->slabs.GiveBack(entry->row());
      --rows_->num_rows;
    }
    if (before.stamp == 0) {
      rows_->index.Erase(before.key);
      continue;
    }
    if (was_stored && !entry->has_row()) {
      entry->number = rows_->slabs.Take();
      ++rows_->num_rows;
    }
    if (!was_stored) entry->number = before.number;
    entry->stamp = before.stamp;
    if (!was_stored) continue;
    std::memcpy(rows_->slabs[entry->row()], undo_.row(i, updater_.row_floats()),
                updater_.row_floats() * sizeof(float));
  }
}

void Bucket::KeepForCuts(size_t num_keys) {
  if (rows_->cuts.empty()) return;
  for (size_t i = 0; i < num_keys; ++i) {
    rows_->KeepForCuts(undo_.entries[i], undo_.row(i, updater_.row_floats()));
  }
}

// A row that is idle reads as one that was never trained from then on, and an idle count begins
// anew, so their memory can be reused at any time after that, and which of them this update finds
// does not matter.
void Bucket::RemoveSomeIdle(size_t num_entries, uint64_t oldest_readable) {
  if (updater_.options().idle_updates == 0) return;
  rows_->index.Scan(&scanned_, num_entries, [&](const RowIndex::Entry& entry) {
    if (rows_->IsIdle(entry.stamp, oldest_readable)) idle_.push_back(entry.key);
  });
  for (const uint64_t key : idle_) {
    const RowIndex::Entry entry = *rows_->index.Find(key);
    rows_->KeepForCuts(entry, entry.has_row() ? rows_->slabs[entry.row()] : nullptr);
    rows_->index.Erase(key);
    if (!entry.has_row()) continue;
    rows_->slabs.GiveBack(entry.row());
    --rows_->num_rows;
  }
  idle_.clear();
}

// Three waits for memory overlap: while the rows of a group are copied, those of the next group are
// on their way, and the index entries of the one after it.
void Bucket::Read(uint64_t version, bool is_previous, absl::Span<const uint64_t> keys,
                  float* values) const {
  constexpr size_t kGroup = 32;
  const RowIndex::Entry* entries[2][kGroup];
  const auto find = [&](size_t begin, const RowIndex::Entry** found) {
    FindRows(keys.subspan(begin, kGroup), dim_, found);
  };
  size_t num_found = 0;
  Prefetch(keys.subspan(0, 2 * kGroup));
  if (!keys.empty()) find(0, entries[0]);
  for (size_t begin = 0, g = 0; begin < keys.size(); begin += kGroup, ++g) {
    const size_t n = std::min(kGroup, keys.size() - begin);
    const size_t next = begin + n;
    if (next + kGroup < keys.size()) Prefetch(keys.subspan(next + kGroup, kGroup));
    if (next < keys.size()) find(next, entries[(g + 1) % 2]);
    for (size_t i = 0; i < n; ++i) {
      const uint64_t key = keys[begin + i];
      const RowIndex::Entry* const stored = entries[g % 2][i];
      const float* row = nullptr;
      if (stored != nullptr && stored->has_row() && !rows_->IsIdle(stored->stamp, version)) {
        row = rows_->slabs[stored->row()];
      }
      if (is_previous) {
        const std::optional<size_t> place = undo_.keys.Find(key);
        if (place.has_value()) row = ReadUndo(*place, version);
      }
      float* const value = values + (begin + i) * dim_;
      if (row == nullptr) {
        updater_.FillInitialValue(key, value);
      } else {
        ++num_found;
        CopyFloats(row, dim_, value);
      }
    }
  }
  counts_->AddReads(keys.size(), num_found);
}

const float* Bucket::ReadUndo(size_t place, uint64_t version) const {
  if (!undo_.had_row(place) || rows_->IsIdle(undo_.entries[place].stamp, version)) return nullptr;
  return undo_.rows.data() + place * updater_.row_floats();
}

}  // namespace shoal
