// Checkpoints on request, stops, and what a run goes back to.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(TrainingSessionTest, AStopForgetsTheStepsBeyondItsCheckpoint) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  v1::ReportStepsRequest beyond;
  *beyond.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  beyond.add_steps()->set_step(version + 1);
  ASSERT_TRUE(session_->ReportSteps(now_, beyond).ok());
  EXPECT_EQ(session_->newest_step(), version + 1);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->newest_step(), version);
  std::vector<uint64_t> back_to;
  for (const SessionRecord& record : session_->TakeRecords()) {
    if (const auto* back = std::get_if<RolledBack>(&record)) back_to.push_back(back->version);
  }
  EXPECT_THAT(back_to, ElementsAre(version));
  beyond.mutable_steps(0)->set_step(version + 2);
  EXPECT_TRUE(session_->ReportSteps(now_, beyond).ok());
  EXPECT_EQ(session_->newest_step(), version) << "what comes after the end does not count";
}

TEST_F(TrainingSessionTest, ACheckpointThatCannotBeMadeIsRefused) {
  const v1::RequestStopRequest save;
  EXPECT_THAT(session_->RequestStop(now_, save).status().message(),
              HasSubstr("in PHASE_WAITING at step 0; there is none yet"));
  StartTraining();
  const uint64_t version = *session_->RequestStop(now_, save);
  EXPECT_EQ(version, 2u);
  Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  ASSERT_EQ(session_->durable_version(), version);
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

TEST_F(TrainingSessionTest, ARefusedCheckpointIsNotedOnceInTenSecondsHoweverOftenItIsAskedFor) {
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

TEST_F(TrainingSessionTest, ACheckpointDuringAStopIsTheStops) {
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

TEST_F(TrainingSessionTest, AStopThatMakesNoCheckpointSaysWhetherThereIsOne) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  PassTime(120, all_);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(notes_, Contains("no checkpoint in time; there is none"));
}

TEST_F(TrainingSessionTest, AStopWithoutANewCheckpointNamesTheOneThatStands) {
  StartTraining();
  const uint64_t version = *session_->RequestStop(now_, v1::RequestStopRequest());
  Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  PassTime(120, all_);
  EXPECT_THAT(notes_, Contains(absl::StrCat("no new checkpoint in time; the one of step ", version,
                                            " stands")));
}

TEST_F(TrainingSessionTest, AStopKeepsTheLinesOfALaterCheckpointThatIsBeingWritten) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  Cut(version + 1);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  Act();
  EXPECT_EQ(manifests_.size(), 2u);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->newest_step(), version + 1);
  // What all tasks end with: not as after a run that was trained to its end.
  EXPECT_EQ(session_->failure(), absl::CancelledError("stopped on request"));
}

TEST_F(TrainingSessionTest, WhatEachPsLeavesOfACheckpointThatFailedIsGivenUp) {
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
  EXPECT_EQ(session_->open_failure(), given_up_[0].why);
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
  EXPECT_EQ(session_->open_failure(), "");
  EXPECT_EQ(given_up_.size(), 2u);
}

TEST_F(TrainingSessionTest, ARunWithoutCheckpointsForTwiceItsScheduleSaysSo) {
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
  EXPECT_THAT(session_->open_failure(), HasSubstr("step 8: none has succeeded for 1m"));
  EXPECT_THAT(notes_, Contains(HasSubstr("no checkpoint at step 8: none has succeeded")));
  PassTime(90, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u) << "nothing more has been trained";

  Cut(12);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->open_failure(), "");
  PassTime(90, all_);
  EXPECT_EQ(session_->Status(now_).failed_checkpoints(), 1u);
}

TEST_F(TrainingSessionTest, ARunWithoutCheckpointsForTwiceItsSecondsSaysSo) {
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

TEST_F(TrainingSessionTest, ShardsWhoseManifestCouldNotBeWrittenAreGivenUp) {
  StartTraining();
  Cut(*session_->RequestStop(now_, v1::RequestStopRequest()));
  ASSERT_EQ(manifests_.size(), 1u);
  session_->OnManifestWritten(now_, manifests_[0], absl::ResourceExhaustedError("full"));
  Act();
  ASSERT_EQ(given_up_.size(), 1u);
  EXPECT_EQ(given_up_[0].directory, manifests_[0].directory);
  EXPECT_THAT(given_up_[0].why, HasSubstr("full"));
}

// A publisher that is slower than the ps had a queue of manifests without bound.
TEST_F(TrainingSessionTest, OneManifestIsBeingWrittenAndTheNewestWaits) {
  StartTraining();
  for (const uint64_t version : {1, 2, 3, 4}) Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ASSERT_EQ(given_up_.size(), 2u);
  EXPECT_EQ(given_up_[0].directory, "cut-2");
  EXPECT_EQ(given_up_[1].directory, "cut-3");
  EXPECT_THAT(given_up_[1].why, HasSubstr("superseded by a later one"));
  ManifestIsWritten(manifests_[0]);
  Act();
  ASSERT_EQ(manifests_.size(), 2u);
  EXPECT_EQ(manifests_[1].directory, "cut-4");
  ManifestIsWritten(manifests_[1]);
  EXPECT_EQ(session_->durable_version(), 4u);
}

TEST_F(TrainingSessionTest, AManifestThatFailsLetsTheNextOneBeWritten) {
  StartTraining();
  for (const uint64_t version : {1, 2}) Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  session_->OnManifestWritten(now_, manifests_[0], absl::ResourceExhaustedError("full"));
  session_->Tick(now_);
  Act();
  EXPECT_EQ(manifests_.size(), 2u);
}

TEST_F(TrainingSessionTest, ALostPsHasItsOwnDeadline) {
  StartTraining();
  const std::vector<std::pair<v1::Job, uint32_t>> others = {all_[0], all_[2], all_[3]};
  PassTime(60, others);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("ps/1 is gone"));
  EXPECT_THAT(notes_,
              Contains(HasSubstr("waiting 10s for ps/1 to come back; the run ends after 30s")));
  EXPECT_THAT(session_->failure().message(), HasSubstr("there is no checkpoint yet: the run begins "
                                                       "anew if it is started again"));
}

TEST_F(TrainingSessionTest, ALostPsNamesTheCheckpointThatAResumeGoesOnFrom) {
  StartTraining();
  Cut(2);
  ManifestIsWritten(manifests_[0]);
  const std::vector<std::pair<v1::Job, uint32_t>> others = {all_[0], all_[2], all_[3]};
  PassTime(60, others);
  EXPECT_THAT(session_->failure().message(),
              HasSubstr("resume the run to go on from the checkpoint "
                        "of step 2"));
}

TEST_F(TrainingSessionTest, GoingBackSaysWhetherItIsToACheckpoint) {
  StartTraining();
  const auto lose_a_ps = [this](const std::string& nonce) {
    Leave(v1::JOB_PS, 1);
    Register(v1::JOB_PS, 1, nonce);
    Act();
    return notes_;
  };
  EXPECT_THAT(lose_a_ps("second"), Contains("no checkpoint yet: begins anew, lineage 2: ps/1 came "
                                            "back without its state"));
  Cut(2);
  ManifestIsWritten(manifests_[0]);
  EXPECT_THAT(lose_a_ps("third"), Contains("back to the checkpoint of step 2, lineage 3: ps/1 came "
                                           "back without its state"));
}

TEST_F(TrainingSessionTest, OldCheckpointsAreNeededUntilTheSessionRestsOnTheNewOne) {
  StartTraining();
  Cut(1);
  ASSERT_EQ(manifests_.size(), 1u);
  EXPECT_FALSE(session_->RestsOn("cut-1"));  // written, perhaps, but the session does not know
  ManifestIsWritten(manifests_[0]);
  EXPECT_TRUE(session_->RestsOn("cut-1"));
  Cut(2);
  EXPECT_TRUE(session_->RestsOn("cut-1"));
  EXPECT_FALSE(session_->RestsOn("cut-2"));
}

TEST_F(TrainingSessionTest, ACheckpointThatIsKnownTooLateIsNotRestedOn) {
  StartTraining();
  Cut(1);
  ManifestIsWritten(manifests_[0]);
  Cut(2);
  hanging_ps_ = 1;
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");  // all go back to the first one
  Act();
  ManifestIsWritten(manifests_[1]);
  EXPECT_FALSE(session_->RestsOn("cut-2"));
  EXPECT_FALSE(session_->RestsOn("cut-1"));  // ps/1 is reading it
  EXPECT_EQ(session_->durable_version(), 1u);
}

}  // namespace
}  // namespace shoal
