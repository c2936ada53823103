#include "runtime/variables/exchange_groups.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/bulk.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/placement.h"
#include "runtime/transport/bulk.h"

namespace shoal {
namespace {

SliceTable Table(const std::vector<int64_t>& sizes, size_t unversioned) {
  std::vector<v1::VariableSpec> specs;
  for (size_t i = 0; i < sizes.size(); ++i) {
    v1::VariableSpec& spec = specs.emplace_back();
    spec.set_name("v" + std::to_string(i));
    spec.add_shape(sizes[i]);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(i == unversioned ? v1::UPDATE_KIND_NONE : v1::UPDATE_KIND_OPTIMIZER);
  }
  return *SliceTable::Create(specs, 64);
}

TEST(ExchangeGroupsTest, EverySliceIsInOneGroupOfItsPsAndKind) {
  const SliceTable table = Table({40, 3, 20, 100, 1}, 2);
  for (uint32_t num_ps : {1, 2, 3, 20}) {
    const auto owner = PlaceSlices(table, num_ps, PlacementStrategy::kGreedyByBytes);
    std::vector<uint32_t> seen;
    for (const ExchangeGroup& group : MakeExchangeGroups(table, owner, 200)) {
      ASSERT_FALSE(group.slices.empty());
      EXPECT_LE(group.bytes, 200u);
      uint64_t bytes = 0;
      for (uint32_t slice : group.slices) {
        EXPECT_EQ(owner[slice], group.ps);
        EXPECT_EQ(table.slice_is_versioned(slice), group.versioned);
        bytes += table[slice].num_bytes();
        seen.push_back(slice);
      }
      EXPECT_EQ(bytes, group.bytes);
    }
    std::sort(seen.begin(), seen.end());
    ASSERT_EQ(seen.size(), table.size());
    for (uint32_t slice = 0; slice < table.size(); ++slice) EXPECT_EQ(seen[slice], slice);
  }
}

TEST(ExchangeGroupsTest, LateVariablesComeFirst) {
  const SliceTable table = Table({16, 16, 16}, 99);
  const auto groups = MakeExchangeGroups(table, {0, 0, 0}, 128);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].slices, testing::ElementsAre(2, 1));
  EXPECT_THAT(groups[1].slices, testing::ElementsAre(0));
}

TEST(ExchangeGroupsTest, ThereAreManyGroupsOfABoundedSize) {
  struct Want {
    int64_t elements;
    uint64_t bytes;
  };
  for (const Want want : {Want{1000, 4000}, Want{1 << 19, 512 << 10}, Want{1 << 24, 1 << 20}}) {
    v1::VariableSpec spec;
    spec.set_name("v");
    spec.add_shape(want.elements);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    const SliceTable table = *SliceTable::Create({spec}, 4096);
    const auto groups = MakeExchangeGroups(table, std::vector<uint32_t>(table.size(), 0));
    EXPECT_EQ(groups[0].bytes, want.bytes) << want.elements;
  }
}

TEST(ExchangeGroupsTest, SmallSlicesDoNotFillAHeader) {
  const SliceTable table = Table({1 << 20}, 99);  // 65536 slices of 64 bytes
  const auto groups = MakeExchangeGroups(table, std::vector<uint32_t>(table.size(), 0));
  size_t slices = 0;
  for (const ExchangeGroup& group : groups) {
    EXPECT_LE(group.slices.size(), kMaxSlicesInGroup);
    slices += group.slices.size();
  }
  EXPECT_EQ(slices, table.size());
  v1::ExchangeRequest request;
  v1::ExchangeResponse response;
  for (size_t i = 0; i < kMaxSlicesInGroup; ++i) {
    v1::ExchangeRequest::Push* push = request.add_pushes();
    push->set_slice(1u << 28);
    push->set_kind(v1::CONTRIBUTION_KIND_STATISTIC);
    push->set_payload_bytes(4u << 20);
    push->set_crc32c(UINT32_MAX);
    push->set_pulled_version(UINT64_MAX);
    request.add_pulls(1u << 28);
    response.add_outcomes(v1::PUSH_OUTCOME_AHEAD);
    v1::ExchangeResponse::Pull* pull = response.add_pulls();
    pull->set_slice(1u << 28);
    pull->set_version(UINT64_MAX);
    pull->set_payload_bytes(4u << 20);
    pull->set_crc32c(UINT32_MAX);
    pull->set_value_version(UINT64_MAX);
  }
  // Some room for what is there once, such as the positions that are missing.
  EXPECT_LE(request.ByteSizeLong(), kMaxBulkHeaderBytes - (16 << 10));
  EXPECT_LE(response.ByteSizeLong(), kMaxBulkHeaderBytes - (16 << 10));
}

}  // namespace
}  // namespace shoal
