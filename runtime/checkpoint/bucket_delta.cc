#include "runtime/checkpoint/bucket_delta.h"

#include <cstddef>
#include <vector>

namespace shoal {

BucketRows ApplyChanges(absl::Span<const BucketRows> layers, uint64_t version,
                        uint32_t idle_updates) {
  size_t num_rows = 0, num_floats = 0;
  for (const BucketRows& layer : layers) {
    num_rows += layer.keys.size();
    num_floats += layer.rows.size();
  }
  const size_t row_floats = num_rows == 0 ? 0 : num_floats / num_rows;
  BucketRows rows;
  rows.keys.reserve(num_rows);
  rows.touched.reserve(num_rows);
  rows.rows.reserve(num_floats);
  std::vector<size_t> places(layers.size(), 0);
  while (true) {
    // The lowest key that is left, and the newest layer that has it.
    size_t newest = layers.size();
    uint64_t key = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      if (places[i] == layers[i].keys.size()) continue;
      const uint64_t next = layers[i].keys[places[i]];
      if (newest < layers.size() && next > key) continue;
      newest = i;
      key = next;
    }
    if (newest == layers.size()) break;
    const BucketRows& layer = layers[newest];
    const size_t place = places[newest];
    for (size_t i = 0; i < layers.size(); ++i) {
      if (places[i] < layers[i].keys.size() && layers[i].keys[places[i]] == key) ++places[i];
    }
    if (idle_updates > 0 && version > uint64_t{layer.touched[place]} + idle_updates) continue;
    const float* const row = layer.rows.data() + place * row_floats;
    rows.keys.push_back(key);
    rows.touched.push_back(layer.touched[place]);
    rows.rows.insert(rows.rows.end(), row, row + row_floats);
  }
  rows.counted_keys = layers.back().counted_keys;
  rows.counts = layers.back().counts;
  return rows;
}

}  // namespace shoal
