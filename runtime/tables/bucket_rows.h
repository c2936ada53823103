#ifndef SHOAL_RUNTIME_TABLES_BUCKET_ROWS_H_
#define SHOAL_RUNTIME_TABLES_BUCKET_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shoal {

// A run with init_state takes rows from another run. Those that its own updates have not touched
// yet keep how many updates before its version 0 they were touched: at most so many, a longer time
// counts as this one.
inline constexpr uint32_t kMostUpdatesBefore = uint32_t{1} << 30;

// The most updates of a bucket. A row has 32 bits for the version that touched it, and the index
// stores this number plus one; the highest numbers are of rows that were touched before version 0.
inline constexpr uint64_t kMostTableUpdates = UINT32_MAX - 1 - kMostUpdatesBefore;

// Returns what `touched` is for a row that was touched so many updates before version 0.
inline constexpr uint32_t TouchedBefore(uint64_t updates) {
  if (updates == 0) return 0;
  return UINT32_MAX - static_cast<uint32_t>(std::min<uint64_t>(updates, kMostUpdatesBefore));
}
// Returns whether `touched` is that of a row that was touched before version 0.
inline constexpr bool IsTouchedBefore(uint32_t touched) {
  return touched > kMostTableUpdates && touched < UINT32_MAX;
}
// Returns how many updates before `version` the row was touched; 0 if it was touched later.
inline constexpr uint64_t UpdatesSinceTouched(uint32_t touched, uint64_t version) {
  if (IsTouchedBefore(touched)) return version + (UINT32_MAX - touched);
  return version > touched ? version - touched : 0;
}
// Returns whether the row was touched after the version.
inline constexpr bool IsTouchedAfter(uint32_t touched, uint64_t version) {
  return !IsTouchedBefore(touched) && touched > version;
}
// Returns whether a row, or the count of a key, has expired at the version. 0 idle updates: it
// never does.
inline constexpr bool IsExpired(uint32_t touched, uint64_t version, uint32_t idle_updates) {
  return idle_updates > 0 && UpdatesSinceTouched(touched, version) > idle_updates;
}

// The contents of one bucket of a table in a checkpoint.
struct BucketRows {
  // The stored rows.
  std::vector<uint64_t> keys;  // rising
  // For each key: the version of the bucket that made the row's value, the newest that touched it,
  // or TouchedBefore.
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
