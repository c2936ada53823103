#ifndef SHOAL_ML_DATA_RAGGED_ROWS_H_
#define SHOAL_ML_DATA_RAGGED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

// The keys of a ragged field: any number of int64 keys for each of several examples, one example
// after the other in contiguous memory, and one weight for each key if the field has weights.
// Clear keeps the memory, so filling the same object again allocates only for a larger batch.
class RaggedRows {
 public:
  explicit RaggedRows(bool has_weights = false) : has_weights_(has_weights) {}

  bool has_weights() const { return has_weights_; }
  int64_t num_examples() const { return static_cast<int64_t>(offsets_.size()) - 1; }
  absl::Span<const int64_t> keys() const { return keys_; }
  // Returns num_examples() + 1 numbers; the first is 0. Example i has the keys from offsets()[i] to
  // offsets()[i + 1] - 1.
  absl::Span<const int64_t> offsets() const { return offsets_; }
  // Returns one weight for each key; empty if the field has no weights.
  absl::Span<const float> weights() const { return weights_; }

  // Returns the keys of example i.
  absl::Span<const int64_t> keys_of(int64_t i) const;
  // Returns the weights of example i; empty if the field has no weights.
  absl::Span<const float> weights_of(int64_t i) const;

  // Adds a key to the example that the next call of EndExample completes. A field without weights
  // ignores the weight.
  void AddKey(int64_t key, float weight = 1) {
    keys_.push_back(key);
    if (has_weights_) weights_.push_back(weight);
  }
  void EndExample() { offsets_.push_back(static_cast<int64_t>(keys_.size())); }

  // Adds a complete example. `weights` is as long as `keys` if the field has weights, else ignored.
  void AddExample(absl::Span<const int64_t> keys, absl::Span<const float> weights = {});
  // Adds all examples of `other`, which has weights if this field has them.
  void Append(const RaggedRows& other);

  // Removes all examples and keys, also those of an example that was not completed.
  void Clear();

 private:
  bool has_weights_;
  std::vector<int64_t> keys_;
  std::vector<int64_t> offsets_ = {0};
  std::vector<float> weights_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_RAGGED_ROWS_H_
