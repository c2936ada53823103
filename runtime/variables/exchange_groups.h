#ifndef SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_
#define SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/slice_table.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// Each takes at most 40 bytes of a bulk message's header, either way; headers have at most
// kMaxBulkHeaderBytes.
inline constexpr size_t kMaxSlicesInGroup = 1024;

// Puts every slice into exactly one group: slices of one ps, with or without versions but never
// both, consecutive in the order in which a backward pass makes gradients final (variables from
// last to first), at most `max_bytes` together (a larger slice is alone) and at most
// kMaxSlicesInGroup. Groups are in the order in which they become complete.
std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner,
                                              uint64_t max_bytes);

// The same with at most 1 MiB: a sixteenth of all values, so that exchanging one group and
// computing or applying another happen together, but not below 256 KiB, where a call costs more
// than its bytes.
std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_
