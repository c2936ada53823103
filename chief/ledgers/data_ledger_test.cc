#include "chief/ledgers/data_ledger.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Answer = v1::LeaseBatchesResponse;

StepPlan PlanOf(uint64_t batches, uint64_t base_epoch = 0) {
  StepPlan::Options options;
  options.examples_per_epoch = 10 * batches - 3;  // the last batch is smaller
  options.batch_examples = 10;
  options.base_epoch = base_epoch;
  return *StepPlan::Create(options);
}

DataLedger::Options Epochs(uint32_t num_epochs) {
  DataLedger::Options options;
  options.num_epochs = num_epochs;
  return options;
}

// Calls the ledger for workers that compute all batches that they lease.
class Caller {
 public:
  explicit Caller(DataLedger* ledger) : ledger_(*ledger) {}

  Answer Ask(uint32_t worker, const std::vector<BatchKey>& finished = {}, uint32_t want = 10000) {
    request_.mutable_identity()->mutable_member()->set_index(worker);
    request_.mutable_identity()->set_incarnation(incarnation_[worker] + 1);
    request_.set_number(++number_[worker]);
    SetFinished(finished);
    request_.set_want(want);
    return Repeat();
  }
  Answer Repeat() { return ledger_.LeaseBatches(request_, /*may_lease=*/true); }
  void SetFinished(const std::vector<BatchKey>& finished) {
    request_.clear_finished();
    for (const BatchKey& batch : finished) *request_.add_finished() = ToProto(batch);
  }
  void Restart(uint32_t worker) { ++incarnation_[worker]; }
  v1::LeaseBatchesRequest& request() { return request_; }

  // Finishes all that the worker gets until there is nothing more; how many were finished.
  int Drain(uint32_t worker) {
    int count = 0;
    std::vector<BatchKey> finished;
    for (;;) {
      const Answer answer = Ask(worker, std::exchange(finished, {}));
      if (answer.leases().empty()) return count;
      for (const auto& lease : answer.leases()) finished.push_back(ToBatchKey(lease.batch()));
      count += static_cast<int>(finished.size());
    }
  }

 private:
  DataLedger& ledger_;
  v1::LeaseBatchesRequest request_;
  std::map<uint32_t, uint64_t> incarnation_;
  std::map<uint32_t, uint64_t> number_;
};

std::vector<BatchKey> Batches(const Answer& answer) {
  std::vector<BatchKey> batches;
  for (const auto& lease : answer.leases()) batches.push_back(ToBatchKey(lease.batch()));
  return batches;
}

TEST(DataLedgerTest, AChunkIsATenthOfAWorkersShareOfWhatIsLeft) {
  DataLedger::Options options = Epochs(1);
  options.num_workers = 2;
  DataLedger ledger(options, PlanOf(400));
  Caller caller(&ledger);
  EXPECT_THAT(caller.Ask(0).leases(), SizeIs(20));  // 400 / (10 * 2)
  EXPECT_THAT(caller.Ask(1).leases(), SizeIs(19));  // 380 / 20
}

TEST(DataLedgerTest, AChunkIsOneTo1024Batches) {
  DataLedger few(Epochs(1), PlanOf(3));
  EXPECT_THAT(Caller(&few).Ask(0).leases(), SizeIs(1));
  DataLedger many(Epochs(1), PlanOf(1000000));
  EXPECT_THAT(Caller(&many).Ask(0).leases(), SizeIs(1024));
}

TEST(DataLedgerTest, EveryBatchOfEveryEpochIsFinishedOnceAndThenTheRunIsDone) {
  DataLedger ledger(Epochs(3), PlanOf(25));
  Caller caller(&ledger);
  EXPECT_EQ(caller.Drain(0), 75);
  EXPECT_EQ(ledger.updates(), 75u);
  EXPECT_EQ(ledger.num_finished(2), 25u);
  EXPECT_TRUE(ledger.is_done());
  EXPECT_FALSE(caller.Ask(0).epoch_ending());
}

TEST(DataLedgerTest, MaxStepsCountsUpdatesExactly) {
  DataLedger::Options options;
  options.max_steps = 33;
  DataLedger ledger(options, PlanOf(25));
  EXPECT_EQ(Caller(&ledger).Drain(0), 33);
  EXPECT_TRUE(ledger.is_done());
}

TEST(DataLedgerTest, ALostAnswerIsGivenAgain) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  const Answer first = caller.Ask(0);
  const Answer again = caller.Repeat();
  EXPECT_EQ(Batches(again), Batches(first));
  // A new call does not take more either while the worker holds a chunk.
  EXPECT_EQ(Batches(caller.Ask(0)), Batches(first));
  EXPECT_EQ(Batches(caller.Ask(1))[0], (BatchKey{0, static_cast<uint32_t>(Batches(first).size())}))
      << "no batch was leased in vain";
}

TEST(DataLedgerTest, ARepeatedReportCountsOnce) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  const BatchKey batch = Batches(caller.Ask(0))[0];
  caller.Ask(0, {batch, batch});
  caller.Repeat();
  caller.Ask(0, {batch});
  EXPECT_EQ(ledger.updates(), 1u);
}

TEST(DataLedgerTest, ReportsAboutBatchesOfOthersAreIgnored) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  const BatchKey batch = Batches(caller.Ask(0))[0];
  caller.Ask(1, {batch, BatchKey{7, 7}, BatchKey{0, 99}, BatchKey{0, uint64_t{1} << 60}});
  EXPECT_EQ(ledger.updates(), 0u);
}

TEST(DataLedgerTest, ALateCallOfALeaseBeforeDoesNotFinishTheLeaseNow) {
  DataLedger ledger(Epochs(1), PlanOf(1));
  Caller caller(&ledger);
  const BatchKey batch = Batches(caller.Ask(0))[0];
  caller.Ask(0, {batch});
  const v1::LeaseBatchesRequest finished_it = caller.request();
  // The ps lost it; the same worker gets it again. Then the network repeats the report.
  ASSERT_OK(ledger.OnPsReturned(0, {}, 0));
  ASSERT_THAT(caller.Ask(0).leases(), SizeIs(1));
  ledger.LeaseBatches(finished_it, /*may_lease=*/true);
  EXPECT_FALSE(ledger.is_done());
  EXPECT_THAT(Batches(caller.Ask(0)), ElementsAre(batch));
}

// The only batch was pushed to all ps. Then the worker was lost, and a ps came back without it.
TEST(DataLedgerTest, AWorkerThatGetsItsPlaceBackFinishesNothingOfItsFormerLeases) {
  DataLedger ledger(Epochs(1), PlanOf(1));
  Caller caller(&ledger);
  const BatchKey batch = Batches(caller.Ask(0))[0];
  ledger.OnWorkerLost(0, 1);
  ASSERT_OK(ledger.OnPsReturned(0, {}, 0));
  // This call was under way when the worker finished the batch.
  const Answer first = caller.Ask(0);
  EXPECT_THAT(first.leases(), IsEmpty());
  EXPECT_TRUE(first.epoch_ending());
  const Answer second = caller.Ask(0, {batch});
  EXPECT_EQ(ledger.updates(), 0u);
  EXPECT_THAT(second.leases(), SizeIs(1));
  caller.Ask(0, {batch});
  EXPECT_EQ(ledger.updates(), 1u);
  EXPECT_TRUE(ledger.is_done());
}

TEST(DataLedgerTest, ACallFromBeforeTheLossDoesNotCountAsTheFirstOneAfterIt) {
  DataLedger ledger(Epochs(1), PlanOf(1));
  Caller caller(&ledger);
  caller.Ask(0);
  ledger.OnWorkerLost(0, 1);
  const Answer repeated = caller.Repeat();
  EXPECT_THAT(repeated.leases(), IsEmpty());
  EXPECT_TRUE(repeated.epoch_ending());
  EXPECT_THAT(caller.Ask(0).leases(), IsEmpty());
  EXPECT_THAT(caller.Repeat().leases(), IsEmpty());
  EXPECT_THAT(caller.Ask(0).leases(), SizeIs(1));
  // A new process holds nothing: it gets work at once.
  ledger.OnWorkerLost(0, 1);
  caller.Restart(0);
  EXPECT_THAT(caller.Ask(0).leases(), SizeIs(1));
}

TEST(DataLedgerTest, BatchesOfADeadWorkerAreLeasedFirst) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  const std::vector<BatchKey> of_dead = Batches(caller.Ask(0));
  caller.Ask(0, {of_dead[0]});
  ledger.OnWorkerLost(0, 1);
  const std::vector<BatchKey> next = Batches(caller.Ask(1));
  ASSERT_GE(next.size(), of_dead.size() - 1);
  for (size_t i = 1; i < of_dead.size(); ++i) EXPECT_EQ(next[i - 1], of_dead[i]);
}

TEST(DataLedgerTest, ALaterIncarnationTakesThePlaceAndTheFormerIsIgnored) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  const std::vector<BatchKey> before = Batches(caller.Ask(0));
  caller.SetFinished(before);
  v1::LeaseBatchesRequest zombie = caller.request();
  caller.Restart(0);
  EXPECT_EQ(Batches(caller.Ask(0))[0], before[0]);
  zombie.set_number(zombie.number() + 5);
  EXPECT_THAT(ledger.LeaseBatches(zombie, /*may_lease=*/true).leases(), IsEmpty());
  EXPECT_EQ(ledger.updates(), 0u);
}

TEST(DataLedgerTest, ALateNoticeOfAFormerLifeLeavesTheWorkerAlone) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  caller.Restart(0);
  const std::vector<BatchKey> held = Batches(caller.Ask(0));
  ledger.OnWorkerLost(0, 1);
  EXPECT_EQ(Batches(caller.Ask(0)), held);
}

TEST(DataLedgerTest, NoWorkerGetsNewLeasesWhileABatchIsRefusedRepeatedly) {
  DataLedger ledger(Epochs(1), PlanOf(100));
  Caller caller(&ledger);
  const BatchKey batch = Batches(caller.Ask(0))[0];
  *caller.request().add_stale() = ToProto(batch);
  caller.Ask(0);
  caller.request().clear_stale();
  EXPECT_THAT(caller.Ask(1).leases(), IsEmpty());
  EXPECT_TRUE(caller.Ask(1).epoch_ending());
  caller.Ask(0, {batch});
  EXPECT_THAT(caller.Ask(1).leases(), Not(IsEmpty()));
}

TEST(DataLedgerTest, ASkippedBatchIsNotLeasedAgainAndIsCounted) {
  DataLedger ledger(Epochs(2), PlanOf(20));
  Caller caller(&ledger);
  const BatchKey bad = Batches(caller.Ask(0))[0];
  EXPECT_TRUE(ledger.Skip(bad, "loss is not finite"));
  EXPECT_FALSE(ledger.Skip(bad, "loss is not finite"));
  caller.Ask(0, {bad});
  EXPECT_EQ(ledger.updates(), 0u);
  EXPECT_TRUE(ledger.Skip({0, 19}, "never leased"));  // still ahead
  caller.Drain(0);
  EXPECT_TRUE(ledger.is_done());
  EXPECT_EQ(ledger.updates(), 38u);
  EXPECT_THAT(ledger.skipped(), SizeIs(2));
  EXPECT_FALSE(ledger.Skip({0, 5}, "every slice has it"));
  EXPECT_FALSE(ledger.Skip({0, 20}, "no such batch"));
}

TEST(DataLedgerTest, TwoLivesThatEndOnABatchSkipItOneDoesNot) {
  DataLedger ledger(Epochs(1), PlanOf(20));
  Caller caller(&ledger);
  const BatchKey bad = Batches(caller.Ask(0))[0];
  EXPECT_FALSE(ledger.ReportCrash(bad, 0, 1));
  EXPECT_FALSE(ledger.ReportCrash(bad, 0, 1));  // The same death is reported twice.
  caller.Restart(0);
  EXPECT_EQ(Batches(caller.Ask(0))[0], bad);
  EXPECT_TRUE(ledger.ReportCrash(bad, 0, 2));
  EXPECT_THAT(ledger.skipped(), SizeIs(1));
}

TEST(DataLedgerTest, BatchesThatAPsLostAreIssuedAgainForThatPsOnly) {
  DataLedger ledger(Epochs(1), PlanOf(20));
  Caller caller(&ledger);
  caller.Drain(0);
  ASSERT_TRUE(ledger.is_done());
  ledger.OnPsLost(1);
  EXPECT_FALSE(ledger.is_done());
  EpochBatches applied;
  applied.batches.InsertRange(0, 18);
  ASSERT_OK(ledger.OnPsReturned(1, {applied}, 0));
  const Answer answer = caller.Ask(0);
  EXPECT_EQ(Batches(answer)[0], (BatchKey{0, 18}));
  EXPECT_THAT(answer.leases(0).ps(), ElementsAre(1));
  caller.Ask(0, Batches(answer));
  caller.Drain(0);
  EXPECT_TRUE(ledger.is_done());
  EXPECT_EQ(ledger.updates(), 20u);  // no new updates
}

TEST(DataLedgerTest, ABatchLostByTwoPsIsComputedOnceForBoth) {
  DataLedger ledger(Epochs(1), PlanOf(1));
  Caller caller(&ledger);
  caller.Drain(0);
  ASSERT_OK(ledger.OnPsReturned(2, {}, 0));
  ASSERT_OK(ledger.OnPsReturned(0, {}, 0));
  const Answer answer = caller.Ask(0);
  ASSERT_THAT(answer.leases(), SizeIs(1));
  EXPECT_THAT(answer.leases(0).ps(), ElementsAre(0, 2));
}

TEST(DataLedgerTest, ABatchBeingComputedWhenAPsReturnsIsIssuedAgainForItWhenFinished) {
  DataLedger ledger(Epochs(1), PlanOf(1));
  Caller caller(&ledger);
  const BatchKey batch = Batches(caller.Ask(0))[0];
  // The worker may have the acknowledgement of the former life of ps 1.
  ASSERT_OK(ledger.OnPsReturned(1, {}, 0));
  const Answer answer = caller.Ask(0, {batch});
  EXPECT_EQ(ledger.updates(), 1u);
  ASSERT_THAT(answer.leases(), SizeIs(1));
  EXPECT_THAT(answer.leases(0).ps(), ElementsAre(1));
}

TEST(DataLedgerTest, AWorkerThatDoesNotKnowThePsYetGetsNoLeases) {
  DataLedger ledger(Epochs(1), PlanOf(20));
  Caller caller(&ledger);
  ASSERT_OK(ledger.OnPsReturned(1, {}, /*view=*/3));
  caller.request().mutable_identity()->set_view(2);
  EXPECT_THAT(caller.Ask(0).leases(), IsEmpty());
  caller.request().mutable_identity()->set_view(3);
  EXPECT_THAT(caller.Ask(0).leases(), Not(IsEmpty()));
}

TEST(DataLedgerTest, LeasingPausesForAnEvaluationAtExactlyTheVersion) {
  DataLedger::Options options = Epochs(1);
  options.evaluate_every = 8;
  options.evaluation_blocks = 3;
  DataLedger ledger(options, PlanOf(20));
  Caller caller(&ledger);
  for (uint64_t version : {8, 16, 20}) {
    // Two at a time: one worker is still busy when the other has nothing to do.
    while (ledger.updates() < version) {
      const std::vector<BatchKey> mine = Batches(caller.Ask(0));
      const std::vector<BatchKey> others = Batches(caller.Ask(1));
      EXPECT_FALSE(ledger.is_evaluating());
      caller.Ask(0, mine, 0);
      caller.Ask(1, others, 0);
    }
    ASSERT_EQ(ledger.updates(), version);
    ASSERT_TRUE(ledger.is_evaluating());
    for (const uint64_t block : {0, 1}) {
      EXPECT_TRUE(ledger.FinishBlock(version, block));
      EXPECT_FALSE(ledger.FinishBlock(version, block)) << "repeated";
    }
    EXPECT_FALSE(ledger.FinishBlock(version, 3)) << "no such block";
    EXPECT_FALSE(ledger.FinishBlock(version - 1, 2)) << "another version";
    EXPECT_THAT(caller.Ask(0).leases(), IsEmpty());
    EXPECT_TRUE(ledger.FinishBlock(version, 2));
  }
  EXPECT_TRUE(ledger.is_done());
}

TEST(DataLedgerTest, EvaluateEveryZeroMeansEveryEpoch) {
  DataLedger::Options options = Epochs(2);
  options.evaluation_blocks = 1;
  DataLedger ledger(options, PlanOf(5));
  Caller caller(&ledger);
  EXPECT_EQ(caller.Drain(0), 5);
  ASSERT_TRUE(ledger.FinishBlock(5, 0));
  EXPECT_EQ(caller.Drain(0), 5);
  ASSERT_TRUE(ledger.FinishBlock(10, 0));
  EXPECT_TRUE(ledger.is_done());
}

TEST(DataLedgerTest, BlocksOfADeadWorkerGoToAnother) {
  DataLedger::Options options = Epochs(1);
  options.evaluation_blocks = 4;
  DataLedger ledger(options, PlanOf(1));
  Caller caller(&ledger);
  caller.Drain(0);
  const Answer first = caller.Ask(0);
  ASSERT_THAT(first.evaluations(), Not(IsEmpty()));
  EXPECT_EQ(first.evaluations(0).version(), 1u);
  EXPECT_THAT(caller.Ask(0).evaluations(), SizeIs(first.evaluations().size())) << "its own again";
  EXPECT_NE(caller.Ask(1).evaluations(0).block(), first.evaluations(0).block());
  ledger.OnWorkerLost(0, 1);
  ledger.OnWorkerLost(1, 1);
  EXPECT_EQ(caller.Ask(2).evaluations(0).block(), 0u);
}

TEST(DataLedgerTest, NoEvaluationWhileAPsIsLost) {
  DataLedger::Options options = Epochs(1);
  options.evaluation_blocks = 1;
  DataLedger ledger(options, PlanOf(2));
  Caller caller(&ledger);
  const BatchKey first = Batches(caller.Ask(0))[0];
  ledger.OnPsLost(0);
  caller.Ask(0, {first});
  caller.Drain(0);
  EXPECT_FALSE(ledger.is_evaluating());
  EpochBatches applied;
  applied.batches.InsertRange(0, 2);
  ASSERT_OK(ledger.OnPsReturned(0, {applied}, 0));
  EXPECT_TRUE(ledger.is_evaluating());
}

TEST(DataLedgerTest, NoWorkerRunsFurtherAheadThanTheClockBound) {
  DataLedger::Options options = Epochs(1);
  options.clock_bound = 2;
  DataLedger ledger(options, PlanOf(1000));
  Caller caller(&ledger);
  EXPECT_THAT(caller.Ask(1).leases(), SizeIs(3));  // clocks 0 to 2
  std::vector<BatchKey> held = Batches(caller.Ask(0));
  EXPECT_THAT(held, SizeIs(3));
  EXPECT_FALSE(ledger.FindHeldUpWorker().has_value());
  EXPECT_THAT(caller.Ask(0, held).leases(), IsEmpty());  // three ahead of worker 1
  ASSERT_TRUE(ledger.FindHeldUpWorker().has_value());
  EXPECT_EQ(ledger.FindHeldUpWorker()->worker, 0u);
  EXPECT_EQ(ledger.FindHeldUpWorker()->slowest, 1u);
  EXPECT_EQ(ledger.FindHeldUpWorker()->ahead, 3u);
  caller.Ask(1, {Batches(caller.Ask(1))[0]});
  EXPECT_THAT(caller.Ask(0).leases(), SizeIs(1));
  EXPECT_FALSE(ledger.FindHeldUpWorker().has_value());
  // The dead do not hold anybody up.
  ledger.OnWorkerLost(1, 1);
  caller.Ask(0, Batches(caller.Ask(0)));
  EXPECT_THAT(caller.Ask(0).leases(), SizeIs(3));
}

TEST(DataLedgerTest, AnEpochIsOpenUntilAllIsFinishedAndBackEverywhere) {
  DataLedger ledger(Epochs(3), PlanOf(4));
  Caller caller(&ledger);
  std::vector<BatchKey> finished;
  while (ledger.updates() < 5) finished = Batches(caller.Ask(0, finished));
  EXPECT_EQ(ledger.FirstOpenEpoch(), 1u);
  ASSERT_OK(ledger.OnPsReturned(0, {}, 0));
  EXPECT_EQ(ledger.FirstOpenEpoch(), 0u);
  ledger.ForgetEpochsBefore(2);  // not before all is back
  EXPECT_EQ(ledger.EpochsToAsk().first, 0u);
  caller.Ask(0, finished);
  caller.Drain(0);
  ledger.ForgetEpochsBefore(2);
  EXPECT_EQ(ledger.EpochsToAsk().first, 2u);
  EXPECT_EQ(ledger.updates(), 12u);
}

TEST(DataLedgerTest, ARestoredLedgerLeasesWhatWasOutstandingAndThenTheRest) {
  DataLedger ledger(Epochs(1), PlanOf(30));
  Caller caller(&ledger);
  std::vector<BatchKey> held = Batches(caller.Ask(0));
  held = Batches(caller.Ask(0, held));
  ledger.Skip(held[1], "bad");

  DataLedger restored(Epochs(1), PlanOf(30));
  ASSERT_OK(restored.Restore(ledger.Serialize()));
  EXPECT_EQ(restored.updates(), ledger.updates());
  EXPECT_EQ(restored.skipped(), ledger.skipped());
  Caller again(&restored);
  const std::vector<BatchKey> first = Batches(again.Ask(0));
  EXPECT_EQ(first[0], held[0]);
  again.Ask(0, first, 0);
  again.Drain(0);
  EXPECT_TRUE(restored.is_done());
  EXPECT_EQ(restored.updates(), 29u);  // one was skipped
}

TEST(DataLedgerTest, AFinishedRunResumesWithMoreEpochsAndEvaluatesOnlyWhatIsDue) {
  DataLedger::Options options = Epochs(1);
  options.evaluation_blocks = 1;
  DataLedger ledger(options, PlanOf(5));
  Caller caller(&ledger);
  caller.Drain(0);
  const std::string before = ledger.Serialize();
  ASSERT_TRUE(ledger.FinishBlock(5, 0));

  DataLedger same(options, PlanOf(5));
  ASSERT_OK(same.Restore(ledger.Serialize()));
  EXPECT_TRUE(same.is_done());
  DataLedger not_evaluated(options, PlanOf(5));
  ASSERT_OK(not_evaluated.Restore(before));
  EXPECT_TRUE(not_evaluated.is_evaluating());
  options.num_epochs = 2;
  DataLedger longer(options, PlanOf(5));
  ASSERT_OK(longer.Restore(ledger.Serialize()));
  EXPECT_EQ(Caller(&longer).Drain(0), 5);
  EXPECT_TRUE(longer.is_evaluating());
}

TEST(DataLedgerTest, ARestoredLedgerStillEvaluatesTheEpochWhoseLastBatchesWereOutstanding) {
  DataLedger::Options options = Epochs(2);
  options.evaluation_blocks = 1;
  DataLedger ledger(options, PlanOf(1));
  ASSERT_THAT(Caller(&ledger).Ask(0).leases(), SizeIs(1));
  DataLedger restored(options, PlanOf(1));
  ASSERT_OK(restored.Restore(ledger.Serialize()));
  EXPECT_EQ(Caller(&restored).Drain(0), 1);
  EXPECT_TRUE(restored.is_evaluating());
}

TEST(DataLedgerTest, AnotherBatchSizeFitsWhereAnEpochStartsOnly) {
  DataLedger ledger(Epochs(2), PlanOf(6));
  Caller caller(&ledger);
  std::vector<BatchKey> finished;
  while (ledger.updates() < 3) finished = Batches(caller.Ask(0, finished));
  DataLedger middle(Epochs(2), PlanOf(3));
  EXPECT_THAT(middle.Restore(ledger.Serialize()).message(), HasSubstr("batch_size"));
  DataLedger at_start(Epochs(1), PlanOf(6));
  Caller(&at_start).Drain(0);
  DataLedger other(Epochs(2), PlanOf(3, /*base_epoch=*/1));
  ASSERT_OK(other.Restore(at_start.Serialize()));
  EXPECT_EQ(Caller(&other).Drain(0), 3);
  EXPECT_TRUE(other.is_done());
  // Batches of the epoch before that a ps lacks cannot be computed with the new batches.
  EXPECT_THAT(other.OnPsReturned(0, {}, 0).message(), HasSubstr("ps/0 lacks batches of epoch 1"));
}

TEST(DataLedgerTest, DamagedStatesAreRefused) {
  DataLedger ledger(Epochs(1), PlanOf(6));
  Caller(&ledger).Drain(0);
  const std::string good = ledger.Serialize();
  EXPECT_EQ(ledger.Restore("").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ledger.Restore("not a ledger").code(), absl::StatusCode::kDataLoss);
  // For every change of a byte the answer is an error or a ledger that still works.
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(RandomBits(/*key=*/3, i));
    DataLedger other(Epochs(1), PlanOf(6));
    if (other.Restore(bad).ok()) Caller(&other).Drain(0);
  }
}

}  // namespace
}  // namespace shoal
