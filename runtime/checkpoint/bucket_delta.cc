#include "runtime/checkpoint/bucket_delta.h"

#include <cstddef>
#include <vector>

namespace shoal {
namespace {

// Goes through the keys of a layer, those with a row and counted ones, in rising order.
class LayerKeys {
 public:
  explicit LayerKeys(const BucketRows* rows) : rows_(*rows) {}

  bool is_at_end() const {
    return row_ == rows_.keys.size() && counted_ == rows_.counted_keys.size();
  }
  uint64_t key() const { return has_row() ? rows_.keys[row_] : rows_.counted_keys[counted_]; }
  uint32_t touched() const {
    return has_row() ? rows_.touched[row_] : rows_.counted_touched[counted_];
  }
  void Advance() { ++(has_row() ? row_ : counted_); }

  // Appends the key with its row or count.
  void CopyTo(size_t row_floats, BucketRows* out) const {
    if (!has_row()) {
      out->counted_keys.push_back(key());
      out->counts.push_back(rows_.counts[counted_]);
      out->counted_touched.push_back(touched());
      return;
    }
    const float* const row = rows_.rows.data() + row_ * row_floats;
    out->keys.push_back(key());
    out->touched.push_back(touched());
    out->rows.insert(out->rows.end(), row, row + row_floats);
  }

 private:
  bool has_row() const {
    if (row_ == rows_.keys.size()) return false;
    return counted_ == rows_.counted_keys.size() || rows_.keys[row_] < rows_.counted_keys[counted_];
  }

  const BucketRows& rows_;
  size_t row_ = 0;      // the next place in keys
  size_t counted_ = 0;  // and in counted_keys
};

}  // namespace

BucketRows ApplyChanges(absl::Span<const BucketRows> layers, uint64_t version,
                        uint32_t idle_updates) {
  size_t num_rows = 0, num_floats = 0;
  std::vector<LayerKeys> keys;
  for (const BucketRows& layer : layers) {
    num_rows += layer.keys.size();
    num_floats += layer.rows.size();
    keys.emplace_back(&layer);
  }
  const size_t row_floats = num_rows == 0 ? 0 : num_floats / num_rows;
  BucketRows rows;
  rows.keys.reserve(num_rows);
  rows.touched.reserve(num_rows);
  rows.rows.reserve(num_floats);
  while (true) {
    // The lowest key that is left, and the newest layer that has it.
    const LayerKeys* newest = nullptr;
    for (const LayerKeys& layer : keys) {
      if (layer.is_at_end()) continue;
      if (newest == nullptr || layer.key() <= newest->key()) newest = &layer;
    }
    if (newest == nullptr) break;
    const uint64_t key = newest->key();
    const bool is_idle = IsExpired(newest->touched(), version, idle_updates);
    if (!is_idle) newest->CopyTo(row_floats, &rows);
    for (LayerKeys& layer : keys) {
      if (!layer.is_at_end() && layer.key() == key) layer.Advance();
    }
  }
  return rows;
}

}  // namespace shoal
