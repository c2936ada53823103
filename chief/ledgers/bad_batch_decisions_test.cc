#include "chief/ledgers/bad_batch_decisions.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const BatchKey kBatch{0, 7};

TEST(BadBatchDecisionsTest, OneCrashIsNotEnoughTwoIncarnationsAre) {
  BadBatchDecisions decisions(2);
  decisions.Report(kBatch, 1, false, "crash");
  decisions.Report(kBatch, 1, false, "crash");  // repeated report
  EXPECT_THAT(decisions.Unanswered(), IsEmpty());
  decisions.Report(kBatch, 2, false, "crash");
  EXPECT_THAT(decisions.Unanswered(), SizeIs(2));
}

TEST(BadBatchDecisionsTest, NoSliceHasItSoAllSkipIt) {
  BadBatchDecisions decisions(2);
  decisions.Report(kBatch, 1, true, "non-finite");
  const uint64_t number = decisions.Unanswered()[0].number;
  decisions.OnWithheld(0, kBatch, number, false, true);
  EXPECT_FALSE(decisions.Decide());
  EXPECT_THAT(decisions.skipped(), IsEmpty());  // ps/1 has not answered
  decisions.OnWithheld(1, kBatch, number, false, true);
  EXPECT_FALSE(decisions.Decide());
  EXPECT_EQ(decisions.skipped().count(kBatch), 1u);
  ASSERT_THAT(decisions.Unanswered(), SizeIs(2));
  EXPECT_TRUE(decisions.Unanswered()[0].decided && decisions.Unanswered()[0].skip);
  decisions.OnDecisionAcknowledged(0, kBatch, number);
  decisions.OnDecisionAcknowledged(1, kBatch, number);
  EXPECT_TRUE(decisions.empty());
}

TEST(BadBatchDecisionsTest, AllSlicesHaveItSoItIsDone) {
  BadBatchDecisions decisions(1);
  decisions.Report(kBatch, 1, false, "crash");
  decisions.Report(kBatch, 2, false, "crash");
  decisions.OnWithheld(0, kBatch, decisions.Unanswered()[0].number, true, false);
  EXPECT_FALSE(decisions.Decide());
  EXPECT_THAT(decisions.skipped(), IsEmpty());
  EXPECT_THAT(decisions.delivered(), ElementsAre(kBatch));
}

TEST(BadBatchDecisionsTest, ACertainlyBadBatchOnSomeSlicesRollsEverythingBack) {
  BadBatchDecisions decisions(2);
  decisions.Report(kBatch, 1, true, "non-finite");
  const uint64_t number = decisions.Unanswered()[0].number;
  decisions.OnWithheld(0, kBatch, number, true, false);
  decisions.OnWithheld(1, kBatch, number, false, true);
  EXPECT_TRUE(decisions.Decide());
  decisions.OnRollback();
  EXPECT_EQ(decisions.skipped().count(kBatch), 1u);  // remembered
  EXPECT_TRUE(decisions.empty());
  decisions.Report(kBatch, 3, true, "non-finite");
  EXPECT_TRUE(decisions.empty());  // decided for ever
}

TEST(BadBatchDecisionsTest, ACertainReportWhileItIsWithheldIsNotLost) {
  BadBatchDecisions decisions(2);
  decisions.Report(kBatch, 1, false, "crash");
  decisions.Report(kBatch, 2, false, "crash");
  const uint64_t number = decisions.Unanswered()[0].number;
  decisions.OnWithheld(0, kBatch, number, true, false);
  decisions.Report(kBatch, 3, true, "non-finite");
  decisions.OnWithheld(1, kBatch, number, false, true);
  EXPECT_TRUE(decisions.Decide());
  EXPECT_EQ(decisions.skipped().count(kBatch), 1u);
}

TEST(BadBatchDecisionsTest, ACertainReportAfterTheDecisionOpensANewNumber) {
  BadBatchDecisions decisions(2);
  decisions.Report(kBatch, 1, false, "crash");
  decisions.Report(kBatch, 2, false, "crash");
  const uint64_t number = decisions.Unanswered()[0].number;
  decisions.OnWithheld(0, kBatch, number, true, false);
  decisions.OnWithheld(1, kBatch, number, false, true);
  EXPECT_FALSE(decisions.Decide()) << "compute it again";
  decisions.OnDecisionAcknowledged(0, kBatch, number);
  decisions.Report(kBatch, 3, true, "non-finite");
  EXPECT_EQ(decisions.Unanswered()[0].number, number);
  decisions.OnDecisionAcknowledged(1, kBatch, number);
  ASSERT_EQ(decisions.Unanswered().size(), 2u);
  const uint64_t next = decisions.Unanswered()[0].number;
  EXPECT_GT(next, number);
  decisions.OnWithheld(0, kBatch, next, true, false);
  decisions.OnWithheld(1, kBatch, next, false, true);
  EXPECT_TRUE(decisions.Decide());
  EXPECT_EQ(decisions.skipped().count(kBatch), 1u);
}

TEST(BadBatchDecisionsTest, ADeliveredBatchIsNotAskedForAgain) {
  BadBatchDecisions decisions(1);
  decisions.Report(kBatch, 1, true, "non-finite");
  const uint64_t number = decisions.Unanswered()[0].number;
  decisions.OnWithheld(0, kBatch, number, true, false);
  EXPECT_FALSE(decisions.Decide());
  decisions.Report(kBatch, 2, true, "non-finite");
  decisions.OnDecisionAcknowledged(0, kBatch, number);
  decisions.Report(kBatch, 3, true, "non-finite");
  EXPECT_TRUE(decisions.empty());
}

TEST(BadBatchDecisionsTest, SkipsOfBatchesWithOtherExamplesAreForgotten) {
  BadBatchDecisions decisions(1);
  decisions.RestoreSkips({{0, 7}, {1, 0}, {2, 3}});
  const uint64_t changes = decisions.changes();
  decisions.ForgetSkipsFrom(1);
  EXPECT_EQ(decisions.skipped().size(), 1u);
  EXPECT_EQ(decisions.skipped().count(BatchKey{0, 7}), 1u);
  EXPECT_GT(decisions.changes(), changes);
}

TEST(BadBatchDecisionsTest, FailuresOfSkippedBatchesAreForgotten) {
  BadBatchDecisions decisions(1);
  decisions.Report(kBatch, 1, false, "crash");
  decisions.Report(kBatch, 2, false, "crash");
  decisions.OnWithheld(0, kBatch, decisions.Unanswered()[0].number, false, true);
  EXPECT_FALSE(decisions.Decide());
  ASSERT_EQ(decisions.skipped().count(kBatch), 1u);
  EXPECT_EQ(decisions.skipped().at(kBatch), "crash");
  decisions.OnRollback();
  decisions.ForgetSkipsFrom(kBatch.epoch);  // It is another batch now.
  decisions.Report(kBatch, 3, false, "crash");
  EXPECT_FALSE(decisions.IsPending(kBatch)) << "one crash is not enough";
}

TEST(BadBatchDecisionsTest, FailuresOfSoManyBatchesAreRememberedAtMost) {
  BadBatchDecisions decisions(1);
  for (uint64_t index = 0; index < 5000; ++index) {
    decisions.Report(BatchKey{0, index}, 1, false, "crash");
  }
  decisions.Report(BatchKey{0, 0}, 2, false, "crash");
  EXPECT_FALSE(decisions.IsPending(BatchKey{0, 0}));
  decisions.Report(BatchKey{0, 4999}, 2, false, "crash");
  EXPECT_TRUE(decisions.IsPending(BatchKey{0, 4999}));
}

TEST(BadBatchDecisionsTest, AnAnswerToAnOlderNumberIsIgnored) {
  BadBatchDecisions decisions(1);
  decisions.Report(kBatch, 1, true, "non-finite");
  decisions.OnWithheld(0, kBatch, 99, false, true);
  EXPECT_FALSE(decisions.Decide());
  EXPECT_THAT(decisions.skipped(), IsEmpty());
}

TEST(BadBatchDecisionsTest, SkipsInARowAreCounted) {
  BadBatchDecisions decisions(1);
  decisions.RestoreSkips({{0, 3}, {0, 4}, {0, 6}, {0, 7}, {0, 8}, {1, 0}, {1, 9}});
  EXPECT_EQ(MostSkippedInARow(decisions.skipped()), 4u);
}

}  // namespace
}  // namespace shoal
