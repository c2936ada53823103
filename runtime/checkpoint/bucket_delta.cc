#include "runtime/checkpoint/bucket_delta.h"

#include <algorithm>
#include <cstddef>

namespace shoal {
namespace {

// Appends a row of `from` to `to`.
void AppendRow(const BucketRows& from, size_t place, BucketRows* to) {
  const size_t row_floats = from.rows.size() / from.keys.size();
  const float* const row = from.rows.data() + place * row_floats;
  to->keys.push_back(from.keys[place]);
  to->touched.push_back(from.touched[place]);
  to->rows.insert(to->rows.end(), row, row + row_floats);
}

}  // namespace

uint64_t CountChanges(const BucketRows& rows, uint64_t since) {
  return static_cast<uint64_t>(
      std::count_if(rows.touched.begin(), rows.touched.end(),
                    [since](uint32_t touched) { return touched > since; }));
}

BucketRows ChangesSince(const BucketRows& rows, uint64_t since) {
  BucketRows changes;
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    if (rows.touched[i] > since) AppendRow(rows, i, &changes);
  }
  changes.counted_keys = rows.counted_keys;
  changes.counts = rows.counts;
  return changes;
}

BucketRows ApplyChanges(const BucketRows& base, const BucketRows& changes, uint64_t version,
                        uint32_t idle_updates) {
  BucketRows rows;
  rows.rows.reserve(base.rows.size() + changes.rows.size());
  size_t c = 0;
  for (size_t b = 0; b < base.keys.size(); ++b) {
    for (; c < changes.keys.size() && changes.keys[c] < base.keys[b]; ++c) {
      AppendRow(changes, c, &rows);
    }
    if (c < changes.keys.size() && changes.keys[c] == base.keys[b]) continue;
    const bool is_idle = idle_updates > 0 && version > uint64_t{base.touched[b]} + idle_updates;
    if (!is_idle) AppendRow(base, b, &rows);
  }
  for (; c < changes.keys.size(); ++c) AppendRow(changes, c, &rows);
  rows.counted_keys = changes.counted_keys;
  rows.counts = changes.counts;
  return rows;
}

}  // namespace shoal
