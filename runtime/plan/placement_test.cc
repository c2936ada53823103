#include "runtime/plan/placement.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

SliceTable Table(const std::vector<int64_t>& sizes, uint64_t slice_bytes = 64) {
  std::vector<v1::VariableSpec> specs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    v1::VariableSpec& spec = specs.emplace_back();
    spec.set_name("v" + std::to_string(i));
    spec.add_shape(sizes[i]);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  }
  return *SliceTable::Create(specs, slice_bytes);
}

TEST(PlacementTest, GreedyBalancesBytesToWithinOneSlice) {
  const SliceTable table = Table({1, 100, 7, 33, 16, 250, 3});
  for (uint32_t num_ps = 1; num_ps <= 5; ++num_ps) {
    const auto owner = PlaceSlices(table, num_ps, PlacementStrategy::kGreedyByBytes);
    std::vector<uint64_t> bytes(num_ps);
    for (uint32_t s = 0; s < table.size(); ++s) bytes[owner[s]] += table[s].num_bytes();
    const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
    EXPECT_LE(*most - *least, table.slice_bytes());
  }
}

TEST(PlacementTest, GreedyTakesTheLargestFirstAndBreaksTiesByIndex) {
  EXPECT_THAT(PlaceSlices(Table({2, 5, 5, 1}), 2, PlacementStrategy::kGreedyByBytes),
              testing::ElementsAre(0, 0, 1, 1));
}

TEST(PlacementTest, RoundRobinKeepsAVariableTogether) {
  EXPECT_THAT(PlaceSlices(Table({20, 1, 40}), 2, PlacementStrategy::kRoundRobin),
              testing::ElementsAre(0, 0, 1, 0, 0, 0));
}

TEST(PlacementTest, RoundRobinGivesEachPsBucketsOfATable) {
  std::vector<v1::VariableSpec> specs(3);
  for (size_t i = 0; i < specs.size(); ++i) {
    specs[i].set_name("v" + std::to_string(i));
    specs[i].add_shape(20);
    specs[i].set_dtype(v1::DATA_TYPE_FLOAT32);
    specs[i].set_update(v1::UPDATE_KIND_OPTIMIZER);
    if (i > 0) specs[i].mutable_table()->set_buckets(4);
  }
  EXPECT_THAT(PlaceSlices(*SliceTable::Create(specs, 64), 3, PlacementStrategy::kRoundRobin),
              testing::ElementsAre(0, 0, /*v1*/ 1, 2, 0, 1, /*v2*/ 2, 0, 1, 2));
}

}  // namespace
}  // namespace shoal
