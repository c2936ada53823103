#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class WaitsTest : public TrainingSessionTest {
 protected:
  // Trains up to the step, which all slices have reached, and stops the run.
  void StopAtStep(uint64_t step) {
    StartTraining();
    ReportStepsUpTo(step);
    for (uint64_t& version : ps_versions_) version = step;
    answer_cuts_ = true;
    v1::RequestStopRequest stop;
    stop.set_stop(true);
    EXPECT_EQ(*session_->RequestStop(now_, stop), step + 2);
  }
};

TEST_F(WaitsTest, AWaitForTasksToRegisterNamesThemAndEnds) {
  Register(v1::JOB_PS, 0);
  PassTime(12, {{v1::JOB_PS, 0}});
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("waiting 10s for ps/1, any of worker/0 to worker/1 "
                                               "to register"),
                                     HasSubstr("5m"))));
  PassTime(300, {{v1::JOB_PS, 0}});
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_EQ(session_->failure().message(),
            "waited 5m1s for ps/1, any of worker/0 to worker/1 to register; start them with this "
            "chief's address, or raise cluster.wait_seconds");
}

TEST_F(WaitsTest, OnePresentWorkerIsEnoughToWaitOnlyForPs) {
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_WORKER, 1);
  PassTime(12, {{v1::JOB_PS, 0}, {v1::JOB_WORKER, 1}});
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 10s for ps/1 to register")));
}

TEST_F(WaitsTest, APsThatDoesNotLoadEndsTheRun) {
  hanging_ps_ = 1;
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
  PassTime(290, all_);
  EXPECT_TRUE(session_->failure().ok());
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 20s for ps/1 to make the initial values")));
  PassTime(20, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("for ps/1 to make the initial values; see"));
}

TEST_F(WaitsTest, ALoadThatMaySucceedLaterIsTriedAgainAndItsWaitNamesTheReason) {
  for (const absl::Status& why :
       {absl::ResourceExhaustedError("the machine has 7 MiB"), absl::UnknownError("stale file")}) {
    session_ = std::make_unique<TrainingSession>(DefaultOptions());
    notes_.clear();
    load_errors_ = {{1, why}};
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
    for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
    PassTime(30, all_);
    EXPECT_TRUE(session_->failure().ok()) << session_->failure();
    EXPECT_THAT(notes_, Contains(HasSubstr("ps/1 has not loaded yet: ")).Times(1));
    EXPECT_THAT(notes_, Contains(HasSubstr(absl::StrCat("for ps/1 (ps/1: ", why.message(),
                                                        ") to make the initial values"))));
    load_errors_.clear();
    PassTime(4, all_);
    EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING) << why;
  }
}

TEST_F(WaitsTest, ALoadThatNeverSucceedsEndsTheRunAsRetryable) {
  load_errors_ = {{1, absl::ResourceExhaustedError("the machine has 7 MiB")}};
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  PassTime(305, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure())) << session_->failure();
  EXPECT_THAT(std::string(session_->failure().message()), HasSubstr("the machine has 7 MiB"));
}

TEST_F(WaitsTest, TrainingWithoutWorkersEnds) {
  StartTraining();
  PassTime(30, ps_);  // their leases end
  EXPECT_THAT(session_->state().workers(), ElementsAre());
  EXPECT_THAT(notes_, Contains(HasSubstr("waiting 10s for any of worker/0 to worker/1 to come")));
  PassTime(325, ps_);  // The time includes that for a last checkpoint, which these ps do not make.
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(),
              AllOf(HasSubstr("any of worker/0 to worker/1 to come back"),
                    HasSubstr(". There is no checkpoint yet")));
}

TEST_F(WaitsTest, AWorkerThatComesBackEndsTheWait) {
  StartTraining();
  PassTime(200, ps_);
  Register(v1::JOB_WORKER, 0, "again");
  const std::vector<std::pair<v1::Job, uint32_t>> some = {ps_[0], ps_[1], {v1::JOB_WORKER, 0}};
  PassTime(200, some);
  EXPECT_TRUE(session_->failure().ok());
  EXPECT_THAT(notes_, Contains(AllOf(HasSubstr("waited 3m"),
                                     HasSubstr("for any of worker/0 to worker/1 to come back"))));
}

TEST_F(WaitsTest, ARunWithoutProgressEndsAndNamesItsWorkers) {
  StartTraining();
  PassTime(100, all_);
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  report.add_steps()->set_step(1);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  PassTime(299, all_);
  EXPECT_TRUE(session_->failure().ok());
  PassTime(30, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("worker/0, worker/1 to get past step 1"));
}

TEST_F(WaitsTest, ALastCheckpointThatDoesNotComeNamesThePs) {
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  for (uint64_t step = 1; step <= session_->plan()->last_step; ++step) {
    report.add_steps()->set_step(step);
  }
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  PassTime(310, all_);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("to write the last checkpoint"));
}

TEST_F(WaitsTest, AWorkerThatComputesOneBatchAgainAndAgainDoesNotKeepTheRunAlive) {
  StartTraining();
  activities_[0].set_computing(true);
  activities_[0].mutable_batch()->set_index(3);
  for (int time = 1; time <= 330; ++time) {
    activities_[0].set_computed(time);
    PassTime(1, all_);
  }
  EXPECT_THAT(session_->state().workers(), ElementsAre(0, 1));
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("to get past step 0"));
}

TEST_F(WaitsTest, AStopWithoutACheckpointNamesTheLastOneIfAny) {
  StartTraining();
  ReportStepsUpTo(1);
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  PassTime(120, all_);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(notes_,
              Contains(HasSubstr("could not make a checkpoint in time, and the run has none")));
}

TEST_F(WaitsTest, AStopWithoutANewCheckpointNamesTheLastOne) {
  StartTraining();
  const uint64_t version = *session_->RequestStop(now_, v1::RequestStopRequest());
  Cut(version);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  ReportStepsUpTo(version + 1);
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  PassTime(120, all_);
  EXPECT_THAT(
      notes_,
      Contains(HasSubstr(absl::StrCat("in time; the newest is of step ", version, ". If"))));
}

TEST_F(WaitsTest, AStopDuringAnEndlessBatchMakesItsCheckpointOfTheNewestCompleteStep) {
  StopAtStep(3);
  PassTime(9, all_);
  EXPECT_EQ(cut_versions_.back(), 5u);
  PassTime(3, all_);
  EXPECT_EQ(cut_versions_.back(), 3u);
  EXPECT_THAT(notes_, Contains("no step was completed within 10s of the stop, so the last "
                               "checkpoint is of step 3"));
  Cut(3);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  PassTime(1, all_);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("in time"))));
}

TEST_F(WaitsTest, AStopWaitsForStepsThatAreCompletedSlowly) {
  StopAtStep(3);
  PassTime(8, all_);
  ReportStepsUpTo(4);
  PassTime(8, all_);
  EXPECT_EQ(cut_versions_.back(), 5u);
}

TEST_F(WaitsTest, ALostPsHasItsOwnDeadline) {
  StartTraining();
  const std::vector<std::pair<v1::Job, uint32_t>> others = {all_[0], all_[2], all_[3]};
  PassTime(60, others);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(session_->failure().message(), HasSubstr("ps/1 is gone"));
  EXPECT_THAT(notes_,
              Contains(HasSubstr("waiting 10s for ps/1 to come back; the run ends after 30s")));
  EXPECT_THAT(session_->failure().message(), HasSubstr("there is no checkpoint yet: if the run is "
                                                       "started again, it begins at step 0"));
}

TEST_F(WaitsTest, TheEndForALostPsNamesTheCheckpointToResumeFrom) {
  StartTraining();
  Cut(2);
  ManifestIsWritten(manifests_[0]);
  const std::vector<std::pair<v1::Job, uint32_t>> others = {all_[0], all_[2], all_[3]};
  PassTime(60, others);
  EXPECT_THAT(session_->failure().message(),
              HasSubstr("resume the run from the checkpoint of step 2"));
}

}  // namespace
}  // namespace shoal
