#include "runtime/plan/step_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/checkpoint.pb.h"

namespace shoal {
namespace {

StepPlan Plan(uint64_t examples, uint32_t batch, uint32_t replicas, uint64_t base_step = 0,
              uint32_t base_epoch = 0) {
  return *StepPlan::Create({base_step, base_epoch, examples, batch, replicas});
}

TEST(StepPlanTest, EveryBatchOfEveryEpochIsInExactlyOneStep) {
  for (uint64_t examples : {1, 7, 10, 11, 12, 64}) {
    for (uint32_t batch : {1, 3, 5, 100}) {
      for (uint32_t replicas : {1, 2, 3, 7}) {
        const StepPlan plan = Plan(examples, batch, replicas, 5, 2);
        uint64_t next_batch = 0;
        uint64_t counted = 0;
        uint64_t step = 5;
        for (uint32_t epoch = 2; epoch < 4; ++epoch, next_batch = 0) {
          EXPECT_EQ(plan.FirstStepOf(epoch), step);
          EXPECT_TRUE(plan.IsEpochStart(step));
          for (uint64_t i = 0; i < plan.steps_per_epoch(); ++i, ++step) {
            const StepPlan::Step at = plan.At(step);
            EXPECT_EQ(at.epoch, epoch);
            EXPECT_EQ(at.first_batch, next_batch);
            ASSERT_GE(at.num_batches, 1u);
            for (uint32_t p = 0; p < at.num_batches; ++p, ++next_batch) {
              const BatchKey key = plan.BatchAt(step, p);
              EXPECT_EQ(key, (BatchKey{epoch, next_batch}));
              EXPECT_EQ(plan.FindPlace(key).step, step);
              EXPECT_EQ(plan.FindPlace(key).position, p);
              EXPECT_EQ(plan.FirstExampleOf(key) + (epoch - 2) * examples, counted);
              counted += plan.ExamplesIn(key);
            }
          }
          EXPECT_EQ(next_batch, plan.batches_per_epoch());
        }
        EXPECT_EQ(counted, 2 * examples);
      }
    }
  }
}

TEST(StepPlanTest, TheRunEndsAtTheNearerOfItsTwoLimits) {
  const StepPlan plan = Plan(10, 2, 2);  // 5 batches, 3 steps
  EXPECT_EQ(plan.LastStep(0, 4), 12u);
  EXPECT_EQ(plan.LastStep(7, 4), 7u);
  EXPECT_EQ(plan.LastStep(70, 4), 12u);
  EXPECT_EQ(plan.LastStep(70, 0), 70u);
  EXPECT_EQ(plan.LastStep(0, 0), UINT64_MAX);
  EXPECT_EQ(Plan(10, 2, 2, 6, 2).LastStep(0, 1), 6u);
}

TEST(StepPlanTest, ScheduleHoldsMultiplesOrEpochStartsAndTheEnd) {
  const StepPlan plan = Plan(10, 2, 2);
  const VersionSchedule every_two{2, 5};
  const VersionSchedule epochs{0, 8};
  std::vector<uint64_t> twos, starts;
  for (uint64_t v = 0; v < 9; ++v) {
    if (every_two.Contains(plan, v)) twos.push_back(v);
    if (epochs.Contains(plan, v)) starts.push_back(v);
  }
  EXPECT_THAT(twos, testing::ElementsAre(2, 4, 5, 6, 8));
  EXPECT_THAT(starts, testing::ElementsAre(3, 6, 8));
}

TEST(StepPlanTest, ZeroesAreRefusedByName) {
  EXPECT_THAT(StepPlan::Create({0, 0, 0, 1, 1}).status().message(),
              testing::HasSubstr("examples_per_epoch"));
  EXPECT_THAT(StepPlan::Create({0, 0, 1, 0, 1}).status().message(),
              testing::HasSubstr("batch_size"));
  EXPECT_THAT(StepPlan::Create({0, 0, 1, 1, 0}).status().message(),
              testing::HasSubstr("replicas_to_aggregate"));
}

TEST(StepPlanTest, SurvivesTheWire) {
  const StepPlan plan = Plan(10, 3, 2, 6, 1);
  v1::StepPlan proto;
  plan.ToProto(&proto);
  const StepPlan copy = *StepPlan::FromProto(proto);
  EXPECT_EQ(copy.options().base_step, 6u);
  EXPECT_EQ(copy.options().base_epoch, 1u);
  EXPECT_EQ(copy.steps_per_epoch(), plan.steps_per_epoch());
  EXPECT_FALSE(copy.Covers(5));
  EXPECT_FALSE(copy.Covers(BatchKey{1, 4}));
  EXPECT_TRUE(copy.Covers(BatchKey{1, 3}));
}

}  // namespace
}  // namespace shoal
