#ifndef SHOAL_RUNTIME_TABLES_STEP_KEYS_H_
#define SHOAL_RUNTIME_TABLES_STEP_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "runtime/tables/row_index.h"

namespace shoal {

// The keys of a bucket that one step touches. Each has a place, which counts from 0 in the order in
// which the keys were added. The first look-up builds an index of all keys; a step with a single
// contribution needs none. Not thread-safe, not even for two look-ups.
class StepKeys {
 public:
  const std::vector<uint64_t>& all() const { return keys_; }
  size_t size() const { return keys_.size(); }
  bool empty() const { return keys_.empty(); }
  // The bytes of memory for keys and index.
  uint64_t bytes() const { return index_.bytes() + keys_.capacity() * sizeof(uint64_t); }

  // Returns the place of a key; nullopt if the step has not touched it.
  std::optional<size_t> Find(uint64_t key) const;
  // Returns the place of a key, which is size() before the call if the key is added.
  size_t FindOrAdd(uint64_t key);
  // Replaces all keys by these, which must differ from each other.
  void Assign(absl::Span<const uint64_t> keys);
  // Removes all keys, and gives memory for more than `most_kept` keys back.
  void Clear(size_t most_kept);

 private:
  void BuildIndex() const;

  std::vector<uint64_t> keys_;
  mutable RowIndex index_;      // maps a key to its place
  mutable size_t indexed_ = 0;  // the keys at places from here on are not in the index
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_STEP_KEYS_H_
