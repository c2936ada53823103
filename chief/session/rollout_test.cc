#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::Contains;

using RolloutTest = TrainingSessionTest;

TEST_F(RolloutTest, ALoadThatCannotSucceedEndsTheRunAtOnce) {
  load_errors_ = {{1, absl::DataLossError("ps-1.shard: damaged")}};
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  EXPECT_TRUE(absl::IsDataLoss(session_->failure())) << session_->failure();
}

TEST_F(RolloutTest, APsThatServedBeforeItsAnswerWasLostTakesAllBackWhenItDies) {
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  hanging_ps_ = 1;  // has loaded, only the chief does not know
  Act();
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(1);
  ASSERT_TRUE(session_->ReportSteps(now_, steps).ok());
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");
  EXPECT_EQ(session_->state().lineage(), 2u);
  EXPECT_EQ(session_->mode().newest_step(), 0u);
}

TEST_F(RolloutTest, APsThatHasNotLoadedTakesNoOtherPsBackWhenItDies) {
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_PS, i);
  Leave(v1::JOB_PS, 1);
  Register(v1::JOB_PS, 1, "again");
  for (const uint32_t i : {0u, 1u}) Register(v1::JOB_WORKER, i);
  Act();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  EXPECT_EQ(session_->state().lineage(), 1u);
}

TEST_F(RolloutTest, TheNoteOfARollbackNamesTheCheckpoint) {
  StartTraining();
  const auto lose_a_ps = [this](const std::string& nonce) {
    Leave(v1::JOB_PS, 1);
    Register(v1::JOB_PS, 1, nonce);
    Act();
    return notes_;
  };
  EXPECT_THAT(
      lose_a_ps("second"),
      Contains("back to the initial values, as there is no checkpoint yet, lineage 2: ps/1 came "
               "back without its state"));
  Cut(2);
  ManifestIsWritten(manifests_[0]);
  EXPECT_THAT(lose_a_ps("third"), Contains("back to the checkpoint of step 2, lineage 3: ps/1 came "
                                           "back without its state"));
  const v1::GetRunStatusResponse status = session_->Status(now_);
  EXPECT_EQ(status.rollbacks(), 2u);
  EXPECT_EQ(status.last_rollback().step(), 2u);
  EXPECT_EQ(status.last_rollback().from(), 2u);
  EXPECT_EQ(status.last_rollback().reason(), "ps/1 came back without its state");
  for (const v1::GetRunStatusResponse::Task& task : status.tasks()) {
    const bool is_ps_1 = task.member().job() == v1::JOB_PS && task.member().index() == 1;
    EXPECT_EQ(task.restarts(), is_ps_1 ? 2u : 0u);
  }
}

}  // namespace
}  // namespace shoal
