
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

TEST_F(TrainingSessionTest, APsReportsNothingBeforeThereIsAPlan) {
  Register(v1::JOB_PS, 0);
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->ReportSteps(now_, steps)));
  v1::ReportShardRequest shard;
  *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  shard.set_version(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->ReportShard(now_, shard)));
  EXPECT_EQ(session_->mode().newest_step(), 0u);
}

TEST_F(TrainingSessionTest, StepsAreTakenFromThePsThatCountsThemOnly) {
  StartTraining();
  v1::ReportStepsRequest steps;
  steps.add_steps()->set_step(1);
  for (const auto& [job, index] : {all_[1], all_[2]}) {
    *steps.mutable_identity() = IdentityOf(job, index);
    EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, steps))) << index;
  }
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.mutable_steps(0)->set_step(0);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportSteps(now_, steps)));
  EXPECT_EQ(session_->mode().newest_step(), 0u);
  steps.mutable_steps(0)->set_step(1);
  EXPECT_TRUE(session_->ReportSteps(now_, steps).ok());
}

}  // namespace
}  // namespace shoal
