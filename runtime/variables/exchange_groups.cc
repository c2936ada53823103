#include "runtime/variables/exchange_groups.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace shoal {

std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner,
                                              uint64_t max_bytes) {
  std::vector<ExchangeGroup> groups;
  std::map<std::tuple<bool, bool, uint32_t>, ExchangeGroup> open;  // by (versioned, table, ps)
  const auto close = [&groups](ExchangeGroup& group) {
    if (!group.slices.empty()) groups.push_back(std::move(group));
    group = ExchangeGroup();
  };
  for (uint32_t v = table.num_variables(); v-- > 0;) {
    for (uint32_t slice = table.first_slice_of(v); slice < table.first_slice_of(v + 1); ++slice) {
      const uint64_t bytes = table[slice].num_bytes();
      const bool is_table = table[slice].is_bucket;
      ExchangeGroup& group = open[{table.is_versioned(v), is_table, owner[slice]}];
      const bool is_full =
          is_table ? group.slices.size() == kMaxBucketsInGroup
                   : group.bytes + bytes > max_bytes || group.slices.size() == kMaxSlicesInGroup;
      if (is_full) close(group);
      group.ps = owner[slice];
      group.buckets = is_table;
      group.versioned = table.is_versioned(v);
      group.slices.push_back(slice);
      group.bytes += bytes;
    }
  }
  for (auto& [key, group] : open) close(group);
  return groups;
}

std::vector<ExchangeGroup> MakeExchangeGroups(const SliceTable& table,
                                              const std::vector<uint32_t>& owner) {
  uint64_t total = 0;
  for (const Slice& slice : table.slices()) total += slice.is_bucket ? 0 : slice.num_bytes();
  return MakeExchangeGroups(table, owner,
                            std::clamp<uint64_t>(total / 16, uint64_t{512} << 10, 1 << 20));
}

}  // namespace shoal
