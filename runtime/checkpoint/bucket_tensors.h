// The tensors of a shard that hold a bucket of a table: docs/checkpoint_format.md.
#ifndef SHOAL_RUNTIME_CHECKPOINT_BUCKET_TENSORS_H_
#define SHOAL_RUNTIME_CHECKPOINT_BUCKET_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "proto/v1/variable.pb.h"

namespace shoal {

// Suffixes of the names of a bucket's tensors. The tensor of a slot of the rows has the slot's name
// as its suffix. Tensors without elements are omitted, except the keys.
inline constexpr char kBucketKeys[] = "keys";
inline constexpr char kBucketTouched[] = "touched";
inline constexpr char kBucketValues[] = "values";
inline constexpr char kBucketCountedKeys[] = "counted_keys";
inline constexpr char kBucketCounts[] = "counts";
inline constexpr char kBucketCountedTouched[] = "counted_touched";

// A slot of a table's rows.
struct RowSlot {
  std::string name;
  uint64_t floats = 0;  // the floats that each row has
};

inline uint64_t DimOf(const v1::VariableSpec& table) {
  return static_cast<uint64_t>(table.shape(0));
}

// Returns the slots of these names, in their order.
inline std::vector<RowSlot> MakeRowSlots(const v1::VariableSpec& table,
                                         absl::Span<const std::string> names) {
  std::vector<RowSlot> slots;
  for (const std::string& name : names) {
    slots.push_back({name, table.table().rowwise() ? 1 : DimOf(table)});
  }
  return slots;
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_BUCKET_TENSORS_H_
