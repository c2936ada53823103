#include "chief/ledgers/evaluation_round.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EvaluationRoundTest, WorkersShareTheBlocksAndARepeatedCallGetsTheSameOnes) {
  EvaluationRound round;
  EXPECT_FALSE(round.is_active());
  round.Start(7, 4);
  EXPECT_TRUE(round.is_active());
  EXPECT_EQ(round.version(), 7u);
  EXPECT_THAT(round.Take(0, 2), ElementsAre(0, 1));
  EXPECT_THAT(round.Take(0, 2), ElementsAre(0, 1));
  EXPECT_THAT(round.Take(1, 2), ElementsAre(2)) << "half of an even share";
  EXPECT_THAT(round.Take(2, 2), ElementsAre(3));
  EXPECT_THAT(round.Take(3, 2), IsEmpty());
}

TEST(EvaluationRoundTest, EndsWhenEveryBlockIsEvaluatedOnce) {
  EvaluationRound round;
  round.Start(7, 2);
  round.Take(0, 1);
  EXPECT_TRUE(round.Finish(7, 0));
  EXPECT_FALSE(round.Finish(7, 0)) << "repeated";
  EXPECT_FALSE(round.Finish(6, 1)) << "another version";
  EXPECT_FALSE(round.Finish(7, 2)) << "no such block";
  EXPECT_TRUE(round.is_active());
  EXPECT_TRUE(round.Finish(7, 1));
  EXPECT_FALSE(round.is_active());
}

TEST(EvaluationRoundTest, TheBlocksOfALostWorkerGoToAnother) {
  EvaluationRound round;
  round.Start(7, 4);
  round.Take(0, 2);
  round.Take(1, 2);
  EXPECT_TRUE(round.Finish(7, 0));
  round.Release(0);
  EXPECT_TRUE(round.Finish(7, 2));
  EXPECT_TRUE(round.Finish(7, 3));
  EXPECT_THAT(round.Take(1, 1), ElementsAre(1));
}

TEST(EvaluationRoundTest, ALateResultOfAReleasedBlockCounts) {
  EvaluationRound round;
  round.Start(7, 1);
  round.Take(0, 1);
  round.Release(0);
  EXPECT_TRUE(round.Finish(7, 0));
  EXPECT_FALSE(round.is_active());
  EXPECT_THAT(round.Take(1, 1), IsEmpty());
}

}  // namespace
}  // namespace shoal
