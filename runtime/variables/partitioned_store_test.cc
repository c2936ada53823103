#include "runtime/variables/partitioned_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_testing.h"

namespace shoal {
namespace {

v1::VariableSpec Spec(const std::string& name, int64_t elements, bool versioned = true) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(elements);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(versioned ? v1::UPDATE_KIND_OPTIMIZER : v1::UPDATE_KIND_NONE);
  spec.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  return spec;
}

TEST(SpreadSlicesTest, EverySliceOfThePsIsInOnePartAndGroupsStayTogether) {
  // Eight groups of a whole variable each, besides a table of constants.
  std::vector<v1::VariableSpec> variables;
  for (int i = 0; i < 8; ++i) variables.push_back(Spec(std::string(1, 'a' + i), 64 << 10));
  variables.push_back(Spec("constants", 64 << 10, /*versioned=*/false));
  const SliceTable table = SliceTable::Create(variables, 64 << 10).value();
  std::vector<uint32_t> owner(table.size(), 0);
  const auto parts = SpreadSlices(table, owner, 0, 3);
  ASSERT_EQ(parts.size(), 3u);
  std::set<uint32_t> seen;
  for (size_t part = 0; part < parts.size(); ++part) {
    std::set<uint32_t> in_part;
    for (const uint32_t slice : parts[part]) {
      EXPECT_TRUE(seen.insert(slice).second) << slice;
      in_part.insert(table[slice].variable);
    }
    // Four slices make one group.
    EXPECT_EQ(parts[part].size(), 4 * in_part.size());
    EXPECT_GE(in_part.size(), 2u);
  }
  EXPECT_EQ(seen.size(), table.size());
  EXPECT_TRUE(std::is_sorted(parts[0].begin(), parts[0].end()));
}

TEST(SpreadSlicesTest, ThereAreNeverMorePartsThanGroupsAndNeverNone) {
  const std::vector<v1::VariableSpec> variables = {Spec("a", 16), Spec("c", 16, false)};
  const SliceTable table = SliceTable::Create(variables, 64).value();
  EXPECT_EQ(SpreadSlices(table, {0, 0}, 0, 8), (std::vector<std::vector<uint32_t>>{{0, 1}}));
  EXPECT_EQ(SpreadSlices(table, {0, 0}, 1, 8), std::vector<std::vector<uint32_t>>{{}});
}

// Two slices in two parts, two batches a step.
class PartitionedStoreTest : public testing::Test {
 protected:
  void Load(bool synchronous) {
    SliceStoreOptions options;
    options.update.schedule.learning_rate = 1;
    options.synchronous = synchronous;
    options.staging_bytes = 128;
    store_ = PartitionedStore::Create(options, variables_, table_, {{0}, {1}}).value();
    InitialValues source(variables_, table_, /*seed=*/1);
    StepPlan::Options plan;
    plan.examples_per_epoch = 8;
    plan.batch_examples = 2;
    plan.replicas_to_aggregate = synchronous ? 2 : 1;
    ASSERT_EQ(store_->Load({1, 0, StepPlan::Create(plan).value(), {}}, source), absl::OkStatus());
  }
  PushOutcome Push(uint32_t slice, uint64_t index, uint64_t step = 0) {
    SlicePush push;
    push.slice = slice;
    push.batch = {0, index};
    push.step = step;
    push.position = static_cast<uint32_t>(index % 2);
    push.examples = 2;
    push.data = gradient_;
    push.bytes = sizeof(gradient_);
    return store_->part(store_->PartOf(slice)).Push(push);
  }
  size_t CutParts() {
    size_t count = 0;
    for (size_t part = 0; part < store_->num_parts(); ++part) {
      SliceStoreEvents events;
      store_->part(part).TakeEvents(&events);
      count += events.cuts.size();
    }
    return count;
  }

  const std::vector<v1::VariableSpec> variables_ = {Spec("a", 16), Spec("b", 16)};
  const SliceTable table_ = SliceTable::Create(variables_, 64).value();
  const float gradient_[16] = {};
  std::unique_ptr<PartitionedStore> store_;
};

TEST_F(PartitionedStoreTest, StagingIsDivided) {
  Load(true);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(store_->part(0)), 64u);
  EXPECT_EQ(SliceStorePeer::FreeStagingBytes(store_->part(1)), 64u);
}

// A DLRM has 1.9 MB of dense variables beside 832 buckets, which count as 1024 rows each.
TEST(PartitionedStagingTest, BucketsLeaveDenseSlicesMemoryForTheContributionsOf32Workers) {
  constexpr uint32_t kWorkers = 32;
  constexpr int64_t kFloats = 15 << 10;
  std::vector<v1::VariableSpec> variables;
  for (int i = 0; i < 26; ++i) {
    variables.push_back(Spec("table" + std::to_string(i), 16));
    variables.back().mutable_table()->set_buckets(32);
  }
  for (int i = 0; i < 32; ++i) variables.push_back(Spec("dense" + std::to_string(i), kFloats));
  const SliceTable table = SliceTable::Create(variables, 64 << 10).value();
  SliceStoreOptions options;
  options.update.schedule.learning_rate = 1;
  const auto parts = SpreadSlices(table, std::vector<uint32_t>(table.size(), 0), 0, 8);
  const auto store = PartitionedStore::Create(options, variables, table, parts).value();
  InitialValues source(variables, table, /*seed=*/1);
  StepPlan::Options plan;
  plan.examples_per_epoch = kWorkers;
  plan.batch_examples = 1;
  plan.replicas_to_aggregate = kWorkers;
  ASSERT_EQ(store->Load({1, 0, StepPlan::Create(plan).value(), {}}, source), absl::OkStatus());
  uint64_t staging = 0;
  for (size_t part = 0; part < store->num_parts(); ++part) {
    const uint64_t free = SliceStorePeer::FreeStagingBytes(store->part(part));
    EXPECT_GE(free, options.staging_bytes / 64) << part;
    staging += free;
  }
  EXPECT_LE(staging, options.staging_bytes);
  EXPECT_GE(staging, options.staging_bytes - store->num_parts());

  // The contribution of the first position comes last.
  const std::vector<float> gradient(kFloats);
  int num_busy = 0;
  for (uint32_t position = kWorkers - 1; position > 0; --position) {
    for (uint32_t slice = 0; slice < table.size(); ++slice) {
      if (table[slice].is_bucket) continue;
      SlicePush push;
      push.slice = slice;
      push.batch = {0, position};
      push.position = position;
      push.examples = 1;
      push.data = gradient.data();
      push.bytes = kFloats * sizeof(float);
      if (store->part(store->PartOf(slice)).Push(push) == PushOutcome::kBusy) ++num_busy;
    }
  }
  EXPECT_EQ(num_busy, 0);
}

TEST_F(PartitionedStoreTest, AWithheldBatchIsHadByAllOnlyIfAllPartsHaveIt) {
  Load(true);
  EXPECT_EQ(Push(0, 0), PushOutcome::kAccepted);
  WithholdAnswer answer = store_->Withhold({0, 0}, 1);
  EXPECT_FALSE(answer.all_have || answer.none_has || answer.ignored);
  EXPECT_EQ(Push(1, 0), PushOutcome::kWithheld);
  store_->Decide({0, 0}, 1, /*skip=*/false);
  EXPECT_TRUE(store_->Withhold({0, 0}, 1).ignored);
  EXPECT_EQ(Push(1, 0), PushOutcome::kAccepted);
  answer = store_->Withhold({0, 0}, 2);
  EXPECT_TRUE(answer.all_have);
  EXPECT_TRUE(store_->Withhold({0, 1}, 3).none_has);
}

TEST_F(PartitionedStoreTest, ACutThatOnePartHasPassedBeginsInNone) {
  Load(true);
  Push(1, 0);
  Push(1, 1);
  const CutAnswer answer = store_->RequestCut(0);
  EXPECT_TRUE(answer.passed);
  EXPECT_EQ(answer.newest_version, 1u);
  Push(0, 0);
  Push(0, 1);
  EXPECT_EQ(CutParts(), 0u);
  EXPECT_TRUE(store_->RequestCut(2).waits);
  for (const uint32_t slice : {0u, 1u}) {
    EXPECT_EQ(Push(slice, 2, 1), PushOutcome::kAccepted);
    EXPECT_EQ(Push(slice, 3, 1), PushOutcome::kAccepted);
  }
  EXPECT_EQ(CutParts(), 2u);
}

TEST_F(PartitionedStoreTest, ACutTakesPartsThatAreAtItsVersionAtOnceAndTheOthersLater) {
  Load(true);
  Push(1, 0);
  Push(1, 1);
  EXPECT_TRUE(store_->RequestCut(1).waits);
  EXPECT_EQ(CutParts(), 1u);
  Push(0, 0);
  Push(0, 1);
  EXPECT_EQ(CutParts(), 1u) << "the other one";
  EXPECT_FALSE(store_->RequestCut(1).waits);
  EXPECT_EQ(CutParts(), 0u);
}

TEST_F(PartitionedStoreTest, AnAsynchronousCutTakesAllPartsAndABatchIsAppliedWhereAllHaveIt) {
  Load(false);
  EXPECT_EQ(Push(0, 0), PushOutcome::kAccepted);
  EXPECT_EQ(Push(0, 1), PushOutcome::kAccepted);
  EXPECT_EQ(Push(1, 1), PushOutcome::kAccepted);
  EXPECT_FALSE(store_->RequestCut(7).passed);
  EXPECT_EQ(CutParts(), 2u);
  const IntervalSet applied = store_->Applied(0);
  EXPECT_FALSE(applied.Contains(0));
  EXPECT_TRUE(applied.Contains(1));
}

}  // namespace
}  // namespace shoal
