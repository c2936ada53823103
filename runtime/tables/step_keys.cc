#include "runtime/tables/step_keys.h"

namespace shoal {

void StepKeys::BuildIndex() const {
  for (; indexed_ < keys_.size(); ++indexed_) {
    index_.Insert(keys_[indexed_], static_cast<uint32_t>(indexed_), 1);
  }
}

std::optional<size_t> StepKeys::Find(uint64_t key) const {
  BuildIndex();
  const RowIndex::Entry* const entry = index_.Find(key);
  if (entry == nullptr) return std::nullopt;
  return entry->row();
}

size_t StepKeys::FindOrAdd(uint64_t key) {
  const std::optional<size_t> place = Find(key);
  if (place.has_value()) return *place;
  keys_.push_back(key);
  BuildIndex();
  return keys_.size() - 1;
}

void StepKeys::Assign(absl::Span<const uint64_t> keys) {
  index_.Clear();
  indexed_ = 0;
  keys_.assign(keys.begin(), keys.end());
}

void StepKeys::Clear(size_t most_kept) {
  if (index_.bytes() > most_kept * sizeof(RowIndex::Entry)) index_ = RowIndex();
  index_.Clear();
  indexed_ = 0;
  if (keys_.capacity() > most_kept) std::vector<uint64_t>().swap(keys_);
  keys_.clear();
}

}  // namespace shoal
