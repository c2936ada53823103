#include "runtime/variables/batch_decisions.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr BatchKey kBatch{1, 7};

TEST(BatchDecisionsTest, ABatchIsRefusedFromTheWithholdToTheDecision) {
  BatchDecisions decisions;
  EXPECT_FALSE(decisions.IsRefused(kBatch));
  EXPECT_TRUE(decisions.Withhold(kBatch, 1));
  EXPECT_TRUE(decisions.IsRefused(kBatch));
  EXPECT_FALSE(decisions.IsSkipped(kBatch));
  EXPECT_TRUE(decisions.Decide(kBatch, 1, false));
  EXPECT_FALSE(decisions.IsRefused(kBatch));
}

TEST(BatchDecisionsTest, ASkipIsForever) {
  BatchDecisions decisions;
  decisions.Withhold(kBatch, 1);
  decisions.Decide(kBatch, 1, true);
  EXPECT_TRUE(decisions.IsSkipped(kBatch));
  EXPECT_TRUE(decisions.Withhold(kBatch, 2));
  decisions.Decide(kBatch, 2, false);
  EXPECT_TRUE(decisions.IsRefused(kBatch));
}

TEST(BatchDecisionsTest, AWithholdThatComesAfterItsDecisionIsIgnored) {
  BatchDecisions decisions;
  EXPECT_TRUE(decisions.Decide(kBatch, 3, false));
  EXPECT_FALSE(decisions.Withhold(kBatch, 3));
  EXPECT_FALSE(decisions.Withhold(kBatch, 2));
  EXPECT_FALSE(decisions.IsRefused(kBatch));
  EXPECT_TRUE(decisions.Withhold(kBatch, 4));
  EXPECT_TRUE(decisions.IsRefused(kBatch));
}

TEST(BatchDecisionsTest, ADecisionCountsOnceAndDoesNotEndANewerWithhold) {
  BatchDecisions decisions;
  decisions.Withhold(kBatch, 5);
  EXPECT_TRUE(decisions.Decide(kBatch, 4, false));
  EXPECT_TRUE(decisions.IsRefused(kBatch));
  EXPECT_FALSE(decisions.Decide(kBatch, 4, true));
  EXPECT_FALSE(decisions.IsSkipped(kBatch));
}

TEST(BatchDecisionsTest, ANewLineageKnowsOnlyTheSkipsItReceives) {
  BatchDecisions decisions;
  decisions.Withhold(kBatch, 1);
  decisions.Decide({0, 1}, 2, true);
  decisions.Reset({{2, 2}});
  EXPECT_FALSE(decisions.IsRefused(kBatch));
  EXPECT_FALSE(decisions.IsRefused({0, 1}));
  EXPECT_TRUE(decisions.IsSkipped({2, 2}));
  EXPECT_TRUE(decisions.Withhold({0, 1}, 1));
}

}  // namespace
}  // namespace shoal
