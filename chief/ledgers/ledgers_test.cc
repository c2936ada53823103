#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/ledgers/bad_batch_decisions.h"
#include "chief/ledgers/cut_ledger.h"
#include "chief/ledgers/evaluation_ledger.h"
#include "chief/ledgers/gradient_norms.h"

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

v1::ShardFile File(const std::string& name) {
  v1::ShardFile file;
  file.set_name(name);
  return file;
}

TEST(CutLedgerTest, ACutIsCompleteWithAllShardsAndTakenOnce) {
  CutLedger cuts(2);
  cuts.AddShard(1, 20, "ckpt-20", File("b"));
  EXPECT_FALSE(cuts.TakeComplete().has_value());
  cuts.AddShard(0, 20, "ckpt-20", File("a"));
  cuts.AddShard(0, 20, "ckpt-20", File("a"));  // repeated
  const auto complete = cuts.TakeComplete();
  ASSERT_TRUE(complete.has_value());
  EXPECT_EQ(complete->shards[0].name(), "a");
  EXPECT_EQ(complete->shards[1].name(), "b");
  EXPECT_FALSE(cuts.TakeComplete().has_value());
  cuts.OnDurable(20);
  EXPECT_EQ(cuts.durable_version(), 20u);
  EXPECT_EQ(cuts.durable_directory(), "ckpt-20");
}

TEST(CutLedgerTest, ARequestThatWasPassedIsNamedAgainFurtherAhead) {
  CutLedger cuts(2);
  cuts.Request(10);
  EXPECT_THAT(cuts.PsToAsk(), ElementsAre(0, 1));
  cuts.OnAnswer(0, 10, {false, true, 8});
  cuts.OnAnswer(1, 10, {true, false, 12});
  EXPECT_GT(cuts.requested_version(), 12u);
  EXPECT_THAT(cuts.PsToAsk(), ElementsAre(0, 1));  // all are asked again
  cuts.OnAnswer(0, 10, {false, true, 8});          // an old answer
  EXPECT_THAT(cuts.PsToAsk(), ElementsAre(0, 1));
  const uint64_t version = cuts.requested_version();
  cuts.OnAnswer(0, version, {false, true, 9});
  cuts.OnAnswer(1, version, {false, true, 12});
  EXPECT_THAT(cuts.PsToAsk(), ElementsAre());
}

TEST(CutLedgerTest, ACutThatFailedIsNotRevivedByLaterShards) {
  CutLedger cuts(2);
  cuts.AddShard(0, 20, "ckpt-20", File("a"));
  cuts.Fail(20);
  cuts.AddShard(1, 20, "ckpt-20", File("b"));
  cuts.AddShard(0, 20, "ckpt-20", File("a"));  // repeated
  EXPECT_FALSE(cuts.has_complete());
  cuts.OnRollback();  // the version comes again
  cuts.AddShard(1, 20, "ckpt-20b", File("b"));
  cuts.AddShard(0, 20, "ckpt-20b", File("a"));
  EXPECT_TRUE(cuts.has_complete());
}

TEST(EvaluationLedgerTest, BlocksAreAddedInOrderAndCountOnce) {
  EvaluationLedger ledger(2);
  EXPECT_TRUE(ledger.Add(5, 1, {1e16, 3, 10}));
  EXPECT_TRUE(ledger.Add(5, 1, {7, 7, 7}));
  EXPECT_FALSE(ledger.Total(5).has_value());
  EXPECT_FALSE(ledger.Add(5, 2, {0, 0, 1}));
  EXPECT_TRUE(ledger.Add(5, 0, {1, 2, 10}));
  ASSERT_TRUE(ledger.Total(5).has_value());
  EXPECT_EQ(ledger.Total(5)->loss_sum, 1 + 1e16);
  EXPECT_EQ(ledger.Total(5)->correct, 5u);
  EXPECT_EQ(ledger.Total(5)->examples, 20u);
  ledger.ForgetAbove(4);
  EXPECT_EQ(ledger.NumMissing(5), 2u);
}

TEST(EvaluationLedgerTest, MetricsAreSumsOverTheBlocks) {
  EvaluationLedger ledger(2);
  const MetricSums first = {{0.5, 2, {}}, {0, 0, {{10, 1, 0}, {20, 0, 1}}}};
  const MetricSums second = {{1, 4, {}}, {0, 0, {{5, 0, 1}}}};
  EXPECT_TRUE(ledger.Add(5, 1, {0, 0, 2, second}));
  EXPECT_TRUE(ledger.Add(5, 1, {0, 0, 2, second}));
  EXPECT_TRUE(ledger.Add(5, 0, {0, 0, 4, first}));
  const MetricSums total = ledger.Total(5)->metrics;
  ASSERT_EQ(total.size(), 2u);
  EXPECT_EQ(MetricValue(total[0]), 0.25);
  // One of the two pairs of a positive and a negative example is in order.
  EXPECT_EQ(total[1].sum, 1);
  EXPECT_EQ(total[1].weight, 2);
}

TEST(GradientNormsTest, OneScaleOfAllSlicesInTheirOrder) {
  GradientNorms norms(1.0, 2);
  norms.Add(3, 1, 16.0);
  EXPECT_FALSE(norms.Scale(3).has_value());
  norms.Add(3, 0, 9.0);
  ASSERT_TRUE(norms.Scale(3).has_value());
  EXPECT_DOUBLE_EQ(*norms.Scale(3), 1.0 / 5.0);
  norms.Add(4, 0, 0.01);
  norms.Add(4, 1, 0.0);
  EXPECT_DOUBLE_EQ(*norms.Scale(4), 1.0);  // a short gradient stays as it is
}

TEST(GradientNormsTest, FewStepsAreRemembered) {
  GradientNorms norms(1.0, 1);
  for (uint64_t step = 0; step < 100; ++step) norms.Add(step, 0, 1.0);
  EXPECT_TRUE(norms.Scale(99).has_value());
  EXPECT_FALSE(norms.Scale(50).has_value());
}

TEST(CutLedgerTest, ARequestedCutIsAgreedOnEvenWhenStepsAreQuickerThanAnswers) {
  CutLedger cuts(1);
  cuts.Request(3);
  uint64_t newest = 1;
  int questions = 0;
  while (!cuts.PsToAsk().empty()) {
    ASSERT_LT(++questions, 20);
    newest += 100;  // steps that pass until the question has arrived
    CutLedger::Answer answer;
    answer.passed = newest > cuts.requested_version();
    answer.newest_version = newest;
    cuts.OnAnswer(0, cuts.requested_version(), answer);
  }
  EXPECT_LT(cuts.requested_version(), newest + 1024);
}

TEST(CutLedgerTest, WhenStepsHaveEndedTheCutIsAtTheNewestVersionThatAPsHasReached) {
  CutLedger cuts(2);
  cuts.Request(9);  // for a stop
  cuts.RequestReached(7);
  EXPECT_EQ(cuts.requested_version(), 7u);
  // ps/1 is a step ahead of the report.
  cuts.OnAnswer(0, 7, {/*passed=*/false, /*waits=*/false, 7});
  cuts.OnAnswer(1, 7, {/*passed=*/true, /*waits=*/false, 8});
  cuts.RequestReached(7);
  EXPECT_EQ(cuts.requested_version(), 8u);
  EXPECT_THAT(cuts.PsToAsk(), ElementsAre(0, 1));
  cuts.OnAnswer(1, 8, {/*passed=*/false, /*waits=*/false, 8});
  EXPECT_FALSE(cuts.SomePsWaits());
  cuts.OnAnswer(0, 8, {/*passed=*/false, /*waits=*/true, 7});
  EXPECT_TRUE(cuts.SomePsWaits());
  cuts.AddShard(0, 8, "cut-8", v1::ShardFile());  // a last contribution has arrived
  EXPECT_FALSE(cuts.SomePsWaits());
  cuts.RequestReached(8);
  EXPECT_EQ(cuts.requested_version(), 8u);
}

TEST(CutLedgerTest, WhenStepsHaveEndedACutThatHasFailedIsNotRequestedAgain) {
  CutLedger cuts(1);
  cuts.Fail(7);
  cuts.RequestReached(7);
  EXPECT_FALSE(cuts.requested());
  cuts.OnRollback();
  cuts.RequestReached(7);
  EXPECT_TRUE(cuts.requested());
}

}  // namespace
}  // namespace shoal
