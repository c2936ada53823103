#ifndef SHOAL_RUNTIME_TABLES_BUCKET_ROWS_H_
#define SHOAL_RUNTIME_TABLES_BUCKET_ROWS_H_

#include <cstdint>
#include <vector>

namespace shoal {

// The most updates of a bucket: rows store the version that touched them in 32 bits, as its number
// plus one.
inline constexpr uint64_t kMostTableUpdates = UINT32_MAX - 1;

// The contents of one bucket of a table in a checkpoint.
struct BucketRows {
  // The stored rows.
  std::vector<uint64_t> keys;  // rising
  // For each key: the version of the bucket that made the row's value, the newest that touched it.
  std::vector<uint32_t> touched;
  // For each key: the value, then the slots (TableUpdater::row_floats()).
  std::vector<float> rows;
  // The keys that were touched, but too few times to be stored.
  std::vector<uint64_t> counted_keys;  // rising
  std::vector<uint32_t> counts;        // for each counted key: the updates that touched it
  // For each counted key: the version that the newest of these updates made.
  std::vector<uint32_t> counted_touched;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_BUCKET_ROWS_H_
