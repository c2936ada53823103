#ifndef SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_
#define SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_

#include <cstdint>
#include <vector>

#include "runtime/cluster/slice_table.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

inline constexpr uint64_t kDefaultGroupBytes = 1 << 20;

// Puts every slice into exactly one group: slices of one ps, with or without versions but never
// both, consecutive in the order in which a backward pass makes gradients final (variables from
// last to first), at most `max_bytes` together (a larger slice is alone). Groups are in the order
// in which they become complete.
std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner,
                                              uint64_t max_bytes = kDefaultGroupBytes);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_EXCHANGE_GROUPS_H_
