#include "chief/session/async_mode.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/async_run_testing.h"
#include "chief/session/training_session.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(AsyncRunTest, EveryBatchIsLeasedAndTheRunEndsWithACutOfAll) {
  Start();
  EXPECT_EQ(Work(100), static_cast<int>(kBatches));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_STOPPING);
  Settle();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_FALSE(session_->phases().is_interrupted());
  EXPECT_EQ(session_->mode().newest_step(), kBatches);
  EXPECT_EQ(manifest_.step(), kBatches);
  EXPECT_TRUE(manifest_.finished());
  EXPECT_FALSE(manifest_.ledger().empty());
}

TEST_F(AsyncRunTest, OnlyTheLostPsIsLoadedAgainAndGetsWhatItLacks) {
  Start();
  const uint64_t lineage = session_->state().lineage();
  Work(2);  // Two are finished, the third is being computed.
  applied_ = 1;
  RestartPs(1);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  const uint64_t view = session_->state().view();
  Settle();
  EXPECT_THAT(loads_, ElementsAre(1u));
  EXPECT_EQ(session_->state().lineage(), lineage);
  EXPECT_GT(session_->state().view(), view);
  const v1::LeaseBatchesResponse response = Lease({Batch(2)});
  ASSERT_EQ(response.leases_size(), 1);
  EXPECT_EQ(response.leases(0).batch().index(), 1u);
  EXPECT_THAT(response.leases(0).ps(), ElementsAre(1u));
  EXPECT_THAT(notes_,
              Contains("ps/1 serves again, from its first values, as there is no checkpoint "
                       "yet; missing updates are computed again"));
}

// Their connections break for two seconds, and no other processes take their places.
TEST_F(AsyncRunTest, TasksWhoseConnectionsBrokeContinueWithWhatTheyHave) {
  Start();
  ASSERT_EQ(Work(3), 3);
  for (const auto& [task, incarnation] : incarnations_) {
    v1::Identity identity;
    FillIdentity(task.first, task.second, &identity);
    session_->Disconnect(now_, identity);
  }
  now_ += absl::Seconds(2);
  session_->Tick(now_);
  EXPECT_THAT(session_->state().workers(), IsEmpty());
  EXPECT_EQ(session_->state().waiting_for_size(), 3);
  applied_ = 3;
  PassASecond();
  EXPECT_THAT(session_->state().workers(), ElementsAre(0u));
  EXPECT_EQ(session_->state().waiting_for_size(), 0);
  EXPECT_THAT(loads_, ElementsAre(0, 1)) << "the ps answer that they have loaded";
  EXPECT_THAT(notes_, Contains(HasSubstr("ps/1 serves again, with all that it had")));
  EXPECT_THAT(Lease({}).leases(), IsEmpty());
  EXPECT_EQ(Work(100), static_cast<int>(kBatches) - 3);
}

TEST_F(AsyncRunTest, AFinalCheckpointThatFailsIsMadeAgainAfterAWhile) {
  Start();
  holds_manifests_ = true;
  EXPECT_EQ(Work(100), static_cast<int>(kBatches));
  Settle();
  ASSERT_THAT(held_manifests_, SizeIs(1));
  session_->OnManifestWritten(now_, held_manifests_[0], absl::UnknownError("input/output error"));
  PassASecond();
  EXPECT_THAT(held_manifests_, SizeIs(1));
  holds_manifests_ = false;
  PassASecond();
  PassASecond();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(manifest_.finished());
}

TEST_F(AsyncRunTest, AStopLeasesNothingMoreAndEndsWithACut) {
  Start();
  Work(2);
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  EXPECT_THAT(Lease({Batch(2)}).leases(), IsEmpty());
  Settle();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(session_->phases().is_interrupted());
  EXPECT_FALSE(manifest_.finished());
}

TEST_F(AsyncRunTest, ANonFiniteBatchIsSkipped) {
  Start();
  ReportNonFinite(2);
  EXPECT_THAT(session_->state().skipped(), SizeIs(1));
  EXPECT_EQ(Work(100), static_cast<int>(kBatches) - 1);
  Settle();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(manifest_.skipped(), SizeIs(1));
}

class LongAsyncRunTest : public AsyncRunTest {
 protected:
  LongAsyncRunTest() : AsyncRunTest(/*save_every=*/100, /*num_epochs=*/6) {}
};

TEST_F(LongAsyncRunTest, TheEndAfterBatchesThatAreNotFiniteSaysThatTheirNumberIsALimit) {
  Start();
  for (uint32_t n = 0; n < 20; ++n) {
    const v1::LeaseBatchesResponse lease = Lease({});
    ASSERT_EQ(lease.leases_size(), 1);
    v1::ReportBadBatchRequest bad;
    FillIdentity(v1::JOB_WORKER, 0, bad.mutable_identity());
    *bad.mutable_batch() = lease.leases(0).batch();
    bad.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
    ASSERT_TRUE(session_->ReportBadBatch(now_, bad).ok());
  }
  Settle();
  EXPECT_EQ(std::string(session_->failure().message())
                .rfind("the limit of 20 batches in a row that are not finite is reached: ", 0),
            0u)
      << session_->failure();
}

TEST_F(AsyncRunTest, PsAreNotifiedOfASkipUntilTheyHaveAcknowledgedIt) {
  Start();
  ignores_decisions_ = true;
  ReportNonFinite(2);
  Settle();
  EXPECT_THAT(decisions_, ElementsAre("0 skips 2", "1 skips 2"));
  ignores_decisions_ = false;
  for (int second = 0; second < 5; ++second) PassASecond();
  EXPECT_THAT(decisions_, ElementsAre("0 skips 2", "1 skips 2", "0 skips 2", "1 skips 2"));
  ReportNonFinite(2);
  Settle();
  EXPECT_THAT(decisions_, SizeIs(4));
}

TEST_F(AsyncRunTest, AFinalCheckpointThatIsWrittenWhileAPsIsGoneEndsTheRun) {
  Start();
  holds_manifests_ = true;
  EXPECT_EQ(Work(100), static_cast<int>(kBatches));
  Settle();
  ASSERT_THAT(held_manifests_, SizeIs(1));
  ASSERT_TRUE(held_manifests_[0].manifest.finished());
  Leave(v1::JOB_PS, 1);
  Settle();
  ASSERT_NE(session_->state().phase(), v1::RunState::PHASE_DONE);
  session_->OnManifestWritten(now_, held_manifests_[0], absl::OkStatus());
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_FALSE(session_->phases().is_interrupted());
  EXPECT_EQ(session_->checkpoints().durable_directory(), held_manifests_[0].directory);
}

TEST_F(AsyncRunTest, ACheckpointWithoutUpdatesThatBecomesKnownLateRemains) {
  Start();
  holds_manifests_ = true;
  ASSERT_TRUE(session_->RequestStop(now_, v1::RequestStopRequest()).ok());
  Settle();
  ASSERT_THAT(held_manifests_, SizeIs(1));
  Leave(v1::JOB_PS, 1);
  session_->OnManifestWritten(now_, held_manifests_[0], absl::OkStatus());
  EXPECT_EQ(session_->checkpoints().durable_directory(), "cut-0");
}

TEST_F(AsyncRunTest, AFinalCheckpointThatFailsWhileAPsIsGoneIsMadeAgain) {
  Start();
  holds_manifests_ = true;
  EXPECT_EQ(Work(100), static_cast<int>(kBatches));
  Settle();
  ASSERT_THAT(held_manifests_, SizeIs(1));
  applied_ = kBatches;
  RestartPs(1);
  Settle();
  EXPECT_THAT(loads_, IsEmpty());
  holds_manifests_ = false;
  session_->OnManifestWritten(now_, held_manifests_[0], absl::UnavailableError("no disk"));
  Settle();
  EXPECT_THAT(loads_, ElementsAre(1));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->checkpoints().durable_version(), kBatches + 1);
}

TEST_F(AsyncRunTest, AResumeContinuesAfterTheCut) {
  Start();
  Work(2);
  Stop();
  BeginAgain();
  applied_ = 2;
  Start();
  EXPECT_EQ(session_->mode().newest_step(), 2u);
  EXPECT_EQ(Work(100), static_cast<int>(kBatches) - 2);
}

// Cuts that were given up have numbers, too: one may be that of the last step before the end.
TEST_F(AsyncRunTest, AStopBeforeAllHaveRegisteredDoesNotFinishTheRun) {
  Start();
  Work(2);
  Stop();
  manifest_.set_step(kBatches);
  BeginAgain();
  Register(v1::JOB_WORKER, 0, "w0");
  Stop();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(session_->phases().is_interrupted());
}

class FrequentCutsTest : public AsyncRunTest {
 protected:
  FrequentCutsTest() : AsyncRunTest(1) {}
};

TEST_F(FrequentCutsTest, ACutThatAPsDidNotLiveToFinishIsMadeAgainUnderAnotherName) {
  Start();
  holds_shards_ = true;
  Work(1);
  Lease({});
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 0u);
  holds_shards_ = false;
  applied_ = 0;
  RestartPs(0);
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 2u);
}

// A ps that loads an older checkpoint has fewer lines than the checkpoint that is being written.
TEST_F(FrequentCutsTest, APsIsNotLoadedBeforeTheCheckpointUnderWayIsWritten) {
  Start();
  steps_in_shard_ = 1;
  ReportLines(1, 2);
  holds_manifests_ = true;
  Work(1);
  Lease({});
  Settle();
  ASSERT_THAT(held_manifests_, SizeIs(1));
  RestartPs(0);
  Settle();
  EXPECT_THAT(loads_, IsEmpty());
  session_->OnManifestWritten(now_, held_manifests_[0], absl::OkStatus());
  EXPECT_EQ(session_->checkpoints().durable_directory(), "cut-1");
  Settle();
  EXPECT_THAT(loads_, ElementsAre(0));
}

TEST_F(FrequentCutsTest, ACheckpointThatIsKnownLateLeavesTheNextCutAlone) {
  Start();
  holds_manifests_ = true;
  Work(1);
  Lease({});
  Settle();
  ASSERT_THAT(held_manifests_, SizeIs(1));
  RestartPs(1);
  ignores_cuts_ = true;
  session_->OnManifestWritten(now_, held_manifests_[0], absl::OkStatus());
  Settle();
  session_->OnManifestWritten(now_, held_manifests_[0], absl::OkStatus());
  ignores_cuts_ = holds_manifests_ = false;
  for (int second = 0; second < 5; ++second) PassASecond();
  EXPECT_EQ(session_->checkpoints().durable_directory(), "cut-2");
}

TEST_F(FrequentCutsTest, AShardOfACutThatWasGivenUpIsNotKept) {
  Start();
  holds_shards_ = true;
  Work(1);
  Lease({});
  Settle();
  ASSERT_TRUE(ReportShard(0, 1).ok());
  applied_ = 0;
  RestartPs(0);
  Settle();  // another cut is under way
  ASSERT_TRUE(ReportShard(0, 1).ok());
  ASSERT_TRUE(ReportShard(1, 1).ok());
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 0u);
}

TEST_F(FrequentCutsTest, ACutIsMadeForEveryUpdate) {
  Start();
  Work(1);
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 1u);
  Work(1);
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 2u);
}

TEST_F(FrequentCutsTest, ACheckpointHasTheLinesOfAllThatItContains) {
  Start();
  steps_in_shard_ = 2;
  Work(1);
  Lease({});
  Settle();
  ReportLines(1, 1);
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 0u);
  ReportLines(2, 2);
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 1u);
  EXPECT_THAT(written_, ElementsAre("<0", "<0", "1", "2", "m1"));
}

TEST_F(FrequentCutsTest, AfterTheDeathOfThePsThatCountsTheLinesNoneIsMissing) {
  Start();
  steps_in_shard_ = 2;
  Work(1);
  ReportLines(1, 3);
  Lease({});
  Settle();
  ASSERT_EQ(session_->checkpoints().durable_version(), 1u);
  written_.clear();
  loaded_steps_ = 2;
  RestartPs(0);
  Settle();
  EXPECT_THAT(written_, ElementsAre("<2"));
  ReportLines(3, 4);
  Settle();
  EXPECT_THAT(written_, ElementsAre("<2", "<2", "3"));
}

TEST_F(FrequentCutsTest, ACutDoesNotWaitForLinesWithoutEnd) {
  Start();
  steps_in_shard_ = 2;
  Work(1);
  Lease({});
  Settle();
  EXPECT_EQ(session_->checkpoints().durable_version(), 0u);
  for (int second = 0; second < 11; ++second) PassASecond();
  EXPECT_EQ(session_->checkpoints().durable_version(), 1u);
}

TEST_F(AsyncRunTest, WithAClockBoundTheSlowWorkerIsNamed) {
  TrainingSession::Options options = OptionsOf(100);
  options.run.mutable_sync()->set_clock_bound(0);
  options.run.mutable_deployment()->set_num_replicas(2);
  session_ = std::make_unique<TrainingSession>(options);
  Start();
  Register(v1::JOB_WORKER, 1, "w1");
  ASSERT_THAT(Lease({}, 1).leases(), SizeIs(1));
  const v1::LeaseBatchesResponse mine = Lease({}, 0);
  ASSERT_THAT(mine.leases(), SizeIs(1));
  EXPECT_THAT(Lease({mine.leases(0).batch()}, 0).leases(), IsEmpty());
  for (int second = 0; second < 9; ++second) PassASecond();
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("gets no batches"))));
  for (int second = 0; second < 3; ++second) PassASecond();
  EXPECT_THAT(notes_, Contains(HasSubstr("worker/0 gets no batches: it is 1 ahead of worker/1")));
}

TEST_F(AsyncRunTest, AWorkerThatHasNotReachedAllPsHoldsNoOtherWorkerUp) {
  TrainingSession::Options options = OptionsOf(100);
  options.run.mutable_sync()->set_clock_bound(0);
  options.run.mutable_deployment()->set_num_replicas(2);
  session_ = std::make_unique<TrainingSession>(options);
  Start();
  Register(v1::JOB_WORKER, 1, "w1");
  // For longer than a lease worker/1 does not reach ps/0.
  for (int second = 0; second < 12; ++second) {
    now_ += absl::Seconds(1);
    for (const auto& [task, incarnation] : incarnations_) {
      v1::HeartbeatRequest heartbeat;
      FillIdentity(task.first, task.second, heartbeat.mutable_identity());
      if (task == std::make_pair(v1::JOB_WORKER, 1u)) heartbeat.add_silent_ps(0);
      heartbeat.set_reaches_all_ps(heartbeat.silent_ps_size() == 0);
      (void)session_->Heartbeat(now_, heartbeat);  // Refused where it has lost its place.
    }
    Settle();
  }
  ASSERT_THAT(session_->state().workers(), ElementsAre(0u));
  Register(v1::JOB_WORKER, 1, "second");
  const v1::LeaseBatchesResponse nothing = Lease({}, 1);
  EXPECT_THAT(nothing.leases(), IsEmpty());
  EXPECT_THAT(nothing.evaluations(), IsEmpty());
  EXPECT_TRUE(nothing.epoch_ending());
  EXPECT_EQ(Work(100), static_cast<int>(kBatches));
}

class EpochsTest : public AsyncRunTest {
 protected:
  EpochsTest() : AsyncRunTest(/*save_every=*/kBatches, /*num_epochs=*/4) {}
};

TEST_F(EpochsTest, PsAreNotifiedToForgetTheEpochsOfDurableCheckpoints) {
  Start();
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    Work(kBatches);
    Settle();
    EXPECT_EQ(session_->checkpoints().durable_version(), (epoch + 1) * kBatches);
    EXPECT_EQ(first_kept_epoch_, epoch);  // durable when the cut was requested
  }
  applied_ = kBatches;
  RestartPs(1);
  Settle();
  EXPECT_EQ(first_kept_epoch_, 3u);
}

}  // namespace
}  // namespace shoal
