#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using CheckpointsTest = TrainingSessionTest;

TEST_F(CheckpointsTest, ACheckpointThatCannotBeMadeIsRefused) {
  const v1::RequestStopRequest save;
  EXPECT_THAT(session_->RequestStop(now_, save).status().message(),
              HasSubstr("in PHASE_WAITING at step 0; there is none yet"));
  StartTraining();
  const uint64_t version = *session_->RequestStop(now_, save);
  EXPECT_EQ(version, 2u);
  Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  ASSERT_EQ(session_->checkpoints().durable_version(), version);
  Leave(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 0, "again");
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
  const absl::Status refused = session_->RequestStop(now_, save).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(refused.message(),
              HasSubstr("in PHASE_PREPARING at step 2; the newest is of step 2"));
  Act();
  EXPECT_THAT(notes_, Contains(HasSubstr("no checkpoint can be made in PHASE_PREPARING")));
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  EXPECT_EQ(*session_->RequestStop(now_, stop), 4u) << "made as soon as it trains again";
}

TEST_F(CheckpointsTest, ARefusedCheckpointIsNotedOnceInTenSecondsHoweverOftenItIsAskedFor) {
  const auto ask_and_count = [this] {
    for (int i = 0; i < 100; ++i) {
      EXPECT_FALSE(session_->RequestStop(now_, v1::RequestStopRequest()).ok());
    }
    Act();
    return std::count_if(notes_.begin(), notes_.end(), [](const std::string& note) {
      return note.find("no checkpoint can be made in PHASE_WAITING") != std::string::npos;
    });
  };
  EXPECT_EQ(ask_and_count(), 1);
  now_ += absl::Seconds(9);
  EXPECT_EQ(ask_and_count(), 1);
  now_ += absl::Seconds(1);
  EXPECT_EQ(ask_and_count(), 2);
}

TEST_F(CheckpointsTest, ARequestDuringAStopGetsTheCheckpointOfTheStop) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_STOPPING);
  EXPECT_EQ(*session_->RequestStop(now_, v1::RequestStopRequest()), version);
  EXPECT_EQ(*session_->RequestStop(now_, stop), version);
  ManifestIsWritten(manifests_[0]);
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(
      absl::IsFailedPrecondition(session_->RequestStop(now_, v1::RequestStopRequest()).status()));
}

TEST_F(CheckpointsTest, TheShardsOfAFailedCheckpointAreGivenUp) {
  StartTraining();
  v1::ReportShardRequest shard;
  shard.set_version(*session_->RequestStop(now_, v1::RequestStopRequest()));
  shard.set_directory("cut");
  const auto report = [&](uint32_t ps) {
    *shard.mutable_identity() = tasks_[{v1::JOB_PS, ps}];
    shard.mutable_identity()->set_lineage(session_->state().lineage());
    ASSERT_TRUE(session_->ReportShard(now_, shard).ok());
    Act();
  };
  shard.set_error("no space left on device");
  report(1);
  ASSERT_EQ(given_up_.size(), 1u);
  EXPECT_EQ(given_up_[0].directory, "cut");
  EXPECT_EQ(given_up_[0].why, absl::StrCat("step ", shard.version(), ": no space left on device"));
  EXPECT_EQ(session_->checkpoints().open_failure(), given_up_[0].why);
  // The other one's shard was good, and came later.
  shard.clear_error();
  report(0);
  ASSERT_EQ(given_up_.size(), 2u);
  EXPECT_EQ(given_up_[1].directory, "cut");
  EXPECT_EQ(given_up_[1].why, "");
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
  EXPECT_TRUE(manifests_.empty());

  Cut(shard.version() + 2);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->checkpoints().open_failure(), "");
  EXPECT_EQ(given_up_.size(), 2u);
}

TEST_F(CheckpointsTest, ARunWithoutCheckpointsForTwiceItsStepsIsReported) {
  TrainingSession::Options options = DefaultOptions();
  options.run.set_num_epochs(10);
  options.run.mutable_checkpoint()->set_save_every(4);
  session_ = std::make_unique<TrainingSession>(options);
  StartTraining();
  PassTime(10, all_);
  // Shards never come, nor does anybody say why.
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  for (uint64_t step = 1; step <= 8; ++step) steps.add_steps()->set_step(step);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  PassTime(45, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 0u);
  PassTime(15, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
  EXPECT_THAT(session_->checkpoints().open_failure(),
              HasSubstr("step 8: none has succeeded for 1m"));
  EXPECT_THAT(notes_, Contains(HasSubstr("no checkpoint at step 8: none has succeeded")));
  PassTime(90, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u) << "nothing more has been trained";

  Cut(12);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->checkpoints().open_failure(), "");
  PassTime(90, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
}

TEST_F(CheckpointsTest, ARunWithoutCheckpointsForTwiceItsSecondsIsReported) {
  TrainingSession::Options options = DefaultOptions();
  options.run.set_num_epochs(1000);
  options.run.mutable_checkpoint()->set_save_every(1000);
  options.save_period = absl::Seconds(60);
  session_ = std::make_unique<TrainingSession>(options);
  StartTraining();
  PassTime(1, all_);
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  for (uint64_t step = 1; step <= 8; ++step) steps.add_steps()->set_step(step);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  PassTime(110, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 0u);
  PassTime(15, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
}

TEST_F(CheckpointsTest, ShardsWhoseManifestCouldNotBeWrittenAreGivenUp) {
  StartTraining();
  Cut(*session_->RequestStop(now_, v1::RequestStopRequest()));
  ASSERT_EQ(manifests_.size(), 1u);
  session_->OnManifestWritten(now_, manifests_[0], absl::ResourceExhaustedError("full"));
  Act();
  ASSERT_EQ(given_up_.size(), 1u);
  EXPECT_EQ(given_up_[0].directory, manifests_[0].directory);
  EXPECT_THAT(given_up_[0].why, HasSubstr("full"));
}

TEST_F(CheckpointsTest, AStopWhoseCheckpointFailsMakesALaterOne) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  ReportStepsUpTo(version - 1);
  v1::ReportShardRequest shard;
  *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
  shard.set_version(version);
  shard.set_directory("cut");
  shard.set_error("input/output error");
  ASSERT_TRUE(session_->ReportShard(now_, shard).ok());
  PassTime(1, all_);
  EXPECT_THAT(cut_versions_, Each(version));
  PassTime(2, all_);
  EXPECT_EQ(cut_versions_.back(), version + 1);
  Cut(version + 1);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->checkpoints().durable_version(), version + 1);
}

// All ps name the directories of a version without asking, so a version is cut once in a lineage.
TEST_F(CheckpointsTest, AFailedCheckpointOfTheNewestStepIsNotRepeatedBeforeWorkersMakeAnother) {
  for (const bool comes_back : {true, false}) {
    SCOPED_TRACE(comes_back);
    session_ = std::make_unique<TrainingSession>(DefaultOptions());
    cut_versions_.clear();
    manifests_.clear();
    StartTraining();
    Cut(1);
    ManifestIsWritten(manifests_.at(0));
    ReportStepsUpTo(2);
    v1::ReportShardRequest shard;
    *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
    shard.set_version(2);
    shard.set_directory("cut");
    shard.set_error("input/output error");
    ASSERT_TRUE(session_->ReportShard(now_, shard).ok());
    for (const uint32_t i : {0u, 1u}) Leave(v1::JOB_WORKER, i);
    PassTime(30, ps_);
    EXPECT_THAT(cut_versions_, IsEmpty());
    if (comes_back) Register(v1::JOB_WORKER, 0, "again");
    v1::RequestStopRequest stop;
    stop.set_stop(true);
    ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
    Act();
    if (comes_back) {
      EXPECT_THAT(cut_versions_, Each(4));
      Cut(4);
      ManifestIsWritten(manifests_.back());
      EXPECT_EQ(session_->checkpoints().durable_version(), 4u);
    } else {
      PassTime(6, ps_);
      EXPECT_THAT(cut_versions_, IsEmpty());
      EXPECT_EQ(session_->checkpoints().durable_version(), 1u);
    }
    EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  }
}

TEST_F(CheckpointsTest, TheManifestOfAStopIsWrittenAgain) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  Cut(*session_->RequestStop(now_, stop));
  ASSERT_EQ(manifests_.size(), 1u);
  session_->OnManifestWritten(now_, manifests_[0], absl::UnavailableError("input/output error"));
  PassTime(1, all_);
  EXPECT_EQ(manifests_.size(), 1u);
  PassTime(2, all_);
  ASSERT_EQ(manifests_.size(), 2u);
  EXPECT_EQ(manifests_[1].directory, manifests_[0].directory);
  EXPECT_THAT(given_up_, IsEmpty());
  ManifestIsWritten(manifests_[1]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
}

// The queue of manifests of a publisher that is slower than the ps once had no limit.
TEST_F(CheckpointsTest, OneManifestIsBeingWrittenAndTheNewestWaits) {
  StartTraining();
  for (const uint64_t version : {1, 2, 3, 4}) Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ASSERT_EQ(given_up_.size(), 2u);
  EXPECT_EQ(given_up_[0].directory, "cut-2");
  EXPECT_EQ(given_up_[1].directory, "cut-3");
  ManifestIsWritten(manifests_[0]);
  Act();
  ASSERT_EQ(manifests_.size(), 2u);
  EXPECT_EQ(manifests_[1].directory, "cut-4");
  ManifestIsWritten(manifests_[1]);
  EXPECT_EQ(session_->checkpoints().durable_version(), 4u);
}

TEST_F(CheckpointsTest, ASupersededCheckpointHasFailedOnlyIfTheNewestIsOld) {
  TrainingSession::Options options = DefaultOptions();
  options.run.set_num_epochs(10);
  session_ = std::make_unique<TrainingSession>(options);
  StartTraining();
  for (const uint64_t version : {1, 2, 3}) Cut(version);
  ASSERT_EQ(given_up_.size(), 1u);
  EXPECT_EQ(given_up_[0].why, "");
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 0u);
  EXPECT_EQ(session_->checkpoints().open_failure(), "");
  EXPECT_THAT(notes_, Contains(HasSubstr("the checkpoint of step 2 is left out: superseded")));
  ManifestIsWritten(manifests_[0]);
  Act();
  now_ += absl::Minutes(2);
  for (const uint64_t version : {4, 5}) Cut(version);
  ASSERT_EQ(given_up_.size(), 2u);
  EXPECT_THAT(given_up_[1].why, HasSubstr("step 4: superseded by a later one"));
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
}

TEST_F(CheckpointsTest, ASnapshotThatAPsSupersedesHasFailedOnlyIfTheNewestIsOld) {
  StartTraining();
  Cut(1);
  ManifestIsWritten(manifests_[0]);
  v1::ReportShardRequest shard;
  shard.set_error("superseded by step 9: step 1 was still being written");
  shard.set_superseded(true);
  for (const uint64_t version : {2, 3}) {
    v1::ReportStepsRequest steps;
    *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
    steps.add_steps()->set_step(version);
    ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
    *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
    shard.set_version(version);
    shard.set_directory("cut");
    ASSERT_TRUE(session_->ReportShard(now_, shard).ok());
    EXPECT_EQ(session_->Status(now_).failed_checkpoints(), version - 2);
    now_ += absl::Minutes(2);
  }
}

TEST_F(CheckpointsTest, AManifestThatFailsLetsTheNextOneBeWritten) {
  StartTraining();
  for (const uint64_t version : {1, 2}) Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  session_->OnManifestWritten(now_, manifests_[0], absl::ResourceExhaustedError("full"));
  session_->Tick(now_);
  Act();
  EXPECT_EQ(manifests_.size(), 2u);
}

// One error of the disk must not fail a run that is trained to its end.
TEST_F(CheckpointsTest, TheManifestOfTheFinalCheckpointIsWrittenAgain) {
  StartTraining();
  Cut(session_->plan()->last_step);
  ASSERT_EQ(manifests_.size(), 1u);
  session_->OnManifestWritten(now_, manifests_[0], absl::UnknownError("input/output error"));
  PassTime(1, all_);
  EXPECT_EQ(manifests_.size(), 1u);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
  PassTime(2, all_);
  ASSERT_EQ(manifests_.size(), 2u);
  EXPECT_EQ(manifests_[1].directory, manifests_[0].directory);
  EXPECT_TRUE(given_up_.empty());
  ManifestIsWritten(manifests_[1]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
}

TEST_F(CheckpointsTest, AFinalCheckpointThatNeverSucceedsEndsTheRunForAnotherTry) {
  StartTraining();
  Cut(session_->plan()->last_step);
  for (int second = 0; second < 310 && session_->failure().ok(); ++second) {
    while (!manifests_.empty()) {
      session_->OnManifestWritten(now_, manifests_[0], absl::ResourceExhaustedError("disk full"));
      manifests_.erase(manifests_.begin());
    }
    PassTime(1, all_);
  }
  EXPECT_TRUE(absl::IsUnavailable(session_->failure())) << session_->failure();
  EXPECT_THAT(std::string(session_->failure().message()),
              HasSubstr("the final checkpoint could not be written for 5m"));
  EXPECT_THAT(std::string(session_->failure().message()), HasSubstr("disk full"));
}

TEST_F(CheckpointsTest, OldCheckpointsAreNeededUntilTheSessionRestsOnTheNewOne) {
  StartTraining();
  Cut(1);
  ASSERT_EQ(manifests_.size(), 1u);
  EXPECT_FALSE(
      session_->checkpoints().RestsOn("cut-1"));  // written, perhaps, but the session does not know
  ManifestIsWritten(manifests_[0]);
  EXPECT_TRUE(session_->checkpoints().RestsOn("cut-1"));
  Cut(2);
  EXPECT_TRUE(session_->checkpoints().RestsOn("cut-1"));
  EXPECT_FALSE(session_->checkpoints().RestsOn("cut-2"));
}

TEST_F(CheckpointsTest, ACheckpointThatBecomesKnownAfterARollbackIsNotUsed) {
  StartTraining();
  Cut(1);
  ManifestIsWritten(manifests_[0]);
  Cut(2);
  hanging_ps_ = 1;
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");  // all go back to the first one
  Act();
  ManifestIsWritten(manifests_[1]);
  EXPECT_FALSE(session_->checkpoints().RestsOn("cut-2"));
  EXPECT_FALSE(session_->checkpoints().RestsOn("cut-1"));  // ps/1 is reading it
  EXPECT_EQ(session_->checkpoints().durable_version(), 1u);
}

class SavingTest : public TrainingSessionTest {
 protected:
  static TrainingSession::Options SavingOptions() {
    TrainingSession::Options options = DefaultOptions();
    options.save_period = absl::Seconds(60);
    options.run.set_num_epochs(10);
    return options;
  }
  SavingTest() : TrainingSessionTest(SavingOptions()) {}

  // Returns the seconds until all ps are asked for a cut, while steps continue, and its version.
  std::pair<int, uint64_t> WaitForRequest() {
    for (int seconds = 1; seconds <= 200; ++seconds) {
      now_ += absl::Seconds(1);
      for (const auto& [job, index] : all_) EXPECT_TRUE(Beat(job, index).ok());
      session_->Tick(now_);
      for (const PsCommand& command : session_->TakeCommands(now_)) {
        const auto* cut = std::get_if<v1::RequestCutRequest>(&command.request);
        if (cut != nullptr && command.ps == 1) return {seconds, cut->version()};
      }
    }
    return {0, 0};
  }
};

TEST_F(SavingTest, ACheckpointIsMadeAfterAWhileAndAgainAfterIt) {
  StartTraining();
  Cut(1);  // By save_every, say.
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(WaitForRequest(), std::make_pair(0, uint64_t{0})) << "nothing would be lost";
  Cut(2);
  ManifestIsWritten(manifests_.back());
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(3);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  const auto [seconds, version] = WaitForRequest();
  EXPECT_THAT(seconds, ::testing::AllOf(::testing::Ge(1), ::testing::Le(61)));
  EXPECT_EQ(version, 5u);
  Cut(version);
  ManifestIsWritten(manifests_.back());
  EXPECT_EQ(session_->checkpoints().durable_version(), 5u);
  steps.mutable_steps(0)->set_step(6);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  EXPECT_EQ(WaitForRequest(), std::make_pair(60, uint64_t{8}));
}

TEST_F(SavingTest, ARunWithoutCheckpointsForTwiceItsPeriodIsReported) {
  StartTraining();
  PassTime(1, all_);
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  for (uint64_t step = 1; step <= 5; ++step) steps.add_steps()->set_step(step);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  const auto contains = Contains(HasSubstr("no checkpoint at step 5: none has succeeded for"));
  PassTime(118, all_);
  EXPECT_THAT(notes_, ::testing::Not(contains));
  PassTime(3, all_);
  EXPECT_THAT(notes_, contains);
}

TEST_F(CheckpointsTest, WithoutAPeriodNoCheckpointIsDueByTime) {
  StartTraining();
  PassTime(1, all_);
  for (int minute = 0; minute < 4; ++minute) {
    PassTime(60, all_);
    for (const PsCommand& command : session_->TakeCommands(now_)) {
      EXPECT_FALSE(std::holds_alternative<v1::RequestCutRequest>(command.request));
    }
  }
}

}  // namespace
}  // namespace shoal
