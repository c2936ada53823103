#include <cstdint>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using BadBatchesTest = TrainingSessionTest;

TEST_F(BadBatchesTest, ABadBatchThatTheRunDoesNotHaveIsRefused) {
  v1::ReportBadBatchRequest report;
  report.mutable_died()->set_job(v1::JOB_WORKER);
  report.mutable_batch()->set_index(1);
  StartTraining();
  *report.mutable_identity() = IdentityOf(v1::JOB_WORKER, 1);
  report.mutable_died()->set_index(1);
  EXPECT_TRUE(session_->ReportBadBatch(now_, report).ok());
  report.mutable_batch()->set_index(8);
  const absl::Status status = session_->ReportBadBatch(now_, report);
  EXPECT_EQ(status.message(), "batch: this run has no batch 8 of epoch 1 to compute");
  report.mutable_batch()->set_index(1);
  report.mutable_died()->set_job(v1::JOB_PS);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportBadBatch(now_, report)));
  report.mutable_died()->set_job(v1::JOB_WORKER);
  report.mutable_identity()->set_run_id("other");
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->ReportBadBatch(now_, report)));
  EXPECT_TRUE(session_->TakeCommands(now_).empty());
}

TEST_F(BadBatchesTest, AMadeUpDeathIsRefusedAndNoIncarnationDiesTwice) {
  StartTraining();
  const auto report = [this](uint64_t incarnation, uint64_t batch) {
    v1::ReportBadBatchRequest request;
    *request.mutable_died() = MemberOf(v1::JOB_WORKER, 1);
    request.mutable_identity()->set_incarnation(incarnation);
    request.mutable_batch()->set_index(batch);
    return session_->ReportBadBatch(now_, request);
  };
  const uint64_t real = IdentityOf(v1::JOB_WORKER, 1).incarnation();
  for (const uint64_t made_up :
       {uint64_t{0}, real + 1, real + 2, UINT64_MAX, IdentityOf(v1::JOB_WORKER, 0).incarnation()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(report(made_up, 1))) << made_up;
  }
  EXPECT_TRUE(report(real, 1).ok());
  EXPECT_TRUE(report(real, 1).ok()) << "the launcher repeats what was not answered";
  EXPECT_TRUE(absl::IsInvalidArgument(report(real, 2)));
  EXPECT_TRUE(session_->TakeCommands(now_).empty())
      << "one death does not prove that a batch is bad";
  Register(v1::JOB_WORKER, 1, "second");
  EXPECT_TRUE(report(IdentityOf(v1::JOB_WORKER, 1).incarnation(), 1).ok());
  EXPECT_EQ(session_->TakeCommands(now_).size(), 2u) << "each ps is asked about the batch";
}

TEST_F(BadBatchesTest, ASliceThatIsNotFiniteEndsTheRunAndNamesTheVariable) {
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
  v1::PoisonedSlice* poisoned = report.add_poisoned();
  poisoned->set_slice(99);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, report)));
  EXPECT_TRUE(session_->failure().ok());
  poisoned->set_slice(1);
  poisoned->set_step(3);
  poisoned->set_learning_rate(2.5);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  EXPECT_EQ(session_->failure().message(),
            "variable b is not finite after the update of step 3: training diverges; lower "
            "--learning_rate (2.5 there) or clip gradients. There is no checkpoint yet");
}

TEST_F(BadBatchesTest, TheLearningRateOfAGroupIsNamedForItsVariables) {
  TrainingSession::Options options = DefaultOptions();
  v1::OptimizerConfig* optimizer = options.run.mutable_optimizer();
  v1::OptimizerGroup* group = optimizer->add_group();
  group->set_variables("a");
  group->set_learning_rate_multiplier(2);  // --learning_rate lowers its rate.
  group = optimizer->add_group();
  group->set_variables("b");
  group->set_learning_rate(2.5);
  for (const uint32_t slice : {0u, 1u}) {
    session_ = std::make_unique<TrainingSession>(options);
    StartTraining();
    v1::ReportStepsRequest report;
    *report.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
    v1::PoisonedSlice* poisoned = report.add_poisoned();
    poisoned->set_slice(slice);
    poisoned->set_step(3);
    poisoned->set_learning_rate(2.5);
    ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
    EXPECT_THAT(std::string(session_->failure().message()),
                ::testing::HasSubstr(slice == 0 ? "; lower --learning_rate (2.5 there) "
                                                : "; lower optimizer.group[1].learning_rate (2.5 "
                                                  "there) "));
  }
}

TEST_F(BadBatchesTest, ATableThatIsNotFiniteEndsTheRunWithItsOwnLearningRate) {
  b_is_a_table_ = true;
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
  v1::PoisonedSlice* poisoned = report.add_poisoned();
  poisoned->set_slice(1);
  poisoned->set_step(3);
  poisoned->set_learning_rate(0.5);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  EXPECT_EQ(session_->failure().message(),
            "table b is not finite after the update of step 3: training diverges; lower "
            "learning_rate in table { name: \"b\" optimizer } (0.5 there) or clip gradients. There "
            "is no checkpoint yet");
}

TEST_F(BadBatchesTest, ATableWithTheRunsLearningRateMayFollowIt) {
  b_is_a_table_ = true;
  rate_of_b_ = DefaultOptions().run.optimizer().learning_rate();
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
  v1::PoisonedSlice* poisoned = report.add_poisoned();
  poisoned->set_slice(1);
  poisoned->set_step(3);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  EXPECT_EQ(session_->failure().message(),
            "table b is not finite after the update of step 3: training diverges; lower "
            "--learning_rate, or learning_rate in table { name: \"b\" optimizer } if the table has "
            "one, (0 there) or clip gradients. There is no checkpoint yet");
}

TEST_F(BadBatchesTest, ATableWithTheMostUpdatesEndsTheRunWithTheRemedy) {
  b_is_a_table_ = true;
  StartTraining();
  v1::ReportStepsRequest report;
  *report.mutable_identity() = IdentityOf(v1::JOB_PS, 1);
  v1::PoisonedSlice* poisoned = report.add_poisoned();
  poisoned->set_slice(1);
  poisoned->set_step(3221225471);
  ASSERT_TRUE(session_->ReportSteps(now_, report).ok());
  EXPECT_EQ(session_->failure().message(),
            "table b has had 3221225470 updates, the most that a table can have; train it further "
            "in a new run with --init_state --init_from=DIRECTORY of this run. There is no "
            "checkpoint yet");
}

}  // namespace
}  // namespace shoal
