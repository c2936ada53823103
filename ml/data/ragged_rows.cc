#include "ml/data/ragged_rows.h"

#include "base/log.h"

namespace shoal {
namespace {

template <typename T>
absl::Span<const T> RowOf(const std::vector<T>& values, const std::vector<int64_t>& offsets,
                          int64_t i) {
  const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(i)]);
  const auto end = static_cast<size_t>(offsets[static_cast<size_t>(i) + 1]);
  return absl::MakeConstSpan(values).subspan(begin, end - begin);
}

}  // namespace

absl::Span<const int64_t> RaggedRows::keys_of(int64_t i) const { return RowOf(keys_, offsets_, i); }

absl::Span<const float> RaggedRows::weights_of(int64_t i) const {
  return has_weights_ ? RowOf(weights_, offsets_, i) : absl::Span<const float>();
}

void RaggedRows::AddExample(absl::Span<const int64_t> keys, absl::Span<const float> weights) {
  keys_.insert(keys_.end(), keys.begin(), keys.end());
  if (has_weights_) {
    CHECK(weights.size() == keys.size())
        << "there are " << weights.size() << " weights for " << keys.size() << " keys";
    weights_.insert(weights_.end(), weights.begin(), weights.end());
  }
  EndExample();
}

void RaggedRows::Append(const RaggedRows& other) {
  CHECK(other.has_weights_ == has_weights_) << "only one of the two fields has weights";
  const auto first = static_cast<int64_t>(keys_.size());
  keys_.insert(keys_.end(), other.keys_.begin(), other.keys_.end());
  weights_.insert(weights_.end(), other.weights_.begin(), other.weights_.end());
  for (size_t i = 1; i < other.offsets_.size(); ++i) offsets_.push_back(first + other.offsets_[i]);
}

void RaggedRows::Clear() {
  keys_.clear();
  weights_.clear();
  offsets_.resize(1);
}

}  // namespace shoal
