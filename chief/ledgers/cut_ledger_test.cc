#include "chief/ledgers/cut_ledger.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

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
