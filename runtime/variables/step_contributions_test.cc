#include "runtime/variables/step_contributions.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/optim/update_rule.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

// A slice of two numbers and steps of three positions. Two contributions may wait, each in a block
// of 64 bytes.
class StepContributionsTest : public ::testing::Test {
 protected:
  StepContributionsTest() {
    sync_.Reset(/*version=*/0, /*value_version=*/0, /*num_positions=*/3);
    contributions_.Restart(/*max_positions=*/3, &staging_);
  }

  static VariableUpdater Updater() {
    v1::VariableSpec spec;
    spec.set_name("v");
    spec.add_shape(2);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_NONE);
    return *VariableUpdater::Create(spec, UpdateSettings(), nullptr);
  }

  Payload PayloadOf(const std::vector<float>& numbers) const {
    return {ContributionKind::kDense, numbers.data(), numbers.size() * sizeof(float)};
  }
  bool AddReady(uint32_t skipped = UINT32_MAX) {
    return contributions_.AddReady([skipped](uint32_t position) { return position == skipped; });
  }
  std::vector<float> Sum() { return {values_.sum(), values_.sum() + 2}; }

  const VariableUpdater updater_ = Updater();
  const std::vector<float> ones_ = {1, 1}, tens_ = {10, 20};
  StagingPool staging_{128};
  SyncSlice sync_{3};
  SliceValues values_{updater_, 2};
  DenseSum sum_{{2, 1}, &values_};
  StepContributions contributions_{&sync_, &sum_};
};

TEST_F(StepContributionsTest, LaterPositionsWaitAndAreAddedInOrder) {
  ASSERT_TRUE(contributions_.Keep(2, PayloadOf(tens_), /*examples=*/1));
  ASSERT_TRUE(contributions_.Keep(1, PayloadOf(ones_), /*examples=*/2));
  EXPECT_EQ(staging_.free_bytes(), 0u);
  EXPECT_FALSE(AddReady()) << "position 0 is missing";
  contributions_.AddNext(PayloadOf(ones_), /*examples=*/5);
  EXPECT_TRUE(AddReady());
  EXPECT_THAT(Sum(), ElementsAre(5 * 1 + 2 * 1 + 1 * 10, 5 * 1 + 2 * 1 + 1 * 20));
  EXPECT_EQ(contributions_.MeanScale(), 1.0f / 8);
  EXPECT_EQ(staging_.free_bytes(), 128u);
}

TEST_F(StepContributionsTest, SkippedPositionsArePassedOverAndTheirRoomIsFree) {
  ASSERT_TRUE(contributions_.TakeRoom(1, 8));
  contributions_.AddNext(PayloadOf(ones_), /*examples=*/5);
  EXPECT_FALSE(AddReady(/*skipped=*/1));
  EXPECT_EQ(sync_.next_position(), 2u);
  EXPECT_EQ(staging_.free_bytes(), 128u);
}

TEST_F(StepContributionsTest, AContributionWithoutRoomIsNotKept) {
  ASSERT_TRUE(contributions_.TakeRoom(1, 128));
  EXPECT_FALSE(contributions_.Keep(2, PayloadOf(ones_), /*examples=*/1));
  EXPECT_FALSE(sync_.HasArrived(2));
  contributions_.ReleaseRoom(1);
  EXPECT_TRUE(contributions_.Keep(2, PayloadOf(ones_), /*examples=*/1));
}

TEST_F(StepContributionsTest, OnlyTheOneBatchOfAStepIsUsedWhereItIs) {
  EXPECT_FALSE(contributions_.IsWholeStep(PayloadOf(ones_))) << "one of three";
  sync_.Reset(0, 0, /*num_positions=*/1);
  EXPECT_TRUE(contributions_.IsWholeStep(PayloadOf(ones_)));
  EXPECT_EQ(contributions_.MeanScale(), 1.0f);
}

}  // namespace
}  // namespace shoal
