#ifndef SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_
#define SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/slice_table.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// Each slice takes at most 40 bytes in the header of a request or reply, and headers have at most
// kMaxBulkHeaderBytes.
inline constexpr size_t kMaxSlicesInGroup = 1024;
// The same limit for buckets. It is lower, so that the threads of a ps share the work on its
// buckets.
inline constexpr size_t kMaxBucketsInGroup = 256;

// Puts every slice into exactly one group. A group has slices of one ps, either all with versions
// or all without, either all buckets of tables or none, that are consecutive in the order in which
// a backward pass makes gradients final (variables from last to first). It has at most `max_bytes`
// (a larger slice is alone) and kMaxSlicesInGroup slices, or at most kMaxBucketsInGroup buckets.
// Groups are in the order in which they become complete.
std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner,
                                              uint64_t max_bytes);

// The same with `max_bytes` chosen as a sixteenth of all values, so that exchanging one group
// overlaps with computing or applying another, but at least 512 KiB, since below that the call
// costs more than its bytes, and at most 1 MiB.
std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_
