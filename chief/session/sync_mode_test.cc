#include <cstdint>
#include <string>
#include <variant>
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
using ::testing::IsEmpty;

using SyncModeTest = TrainingSessionTest;

TEST_F(SyncModeTest, AStopForgetsTheStepsBeyondItsCheckpoint) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  const uint64_t version = *session_->RequestStop(now_, stop);
  Cut(version);
  v1::ReportStepsRequest beyond;
  *beyond.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  beyond.add_steps()->set_step(version + 1);
  ASSERT_TRUE(session_->ReportSteps(now_, beyond).ok());
  EXPECT_EQ(session_->mode().newest_step(), version + 1);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->mode().newest_step(), version);
  std::vector<uint64_t> back_to;
  for (const SessionRecord& record : session_->TakeRecords()) {
    if (const auto* back = std::get_if<RolledBack>(&record)) back_to.push_back(back->version);
  }
  EXPECT_THAT(back_to, ElementsAre(version));
  beyond.mutable_steps(0)->set_step(version + 2);
  EXPECT_TRUE(session_->ReportSteps(now_, beyond).ok());
  EXPECT_EQ(session_->mode().newest_step(), version) << "what comes after the end does not count";
}

TEST_F(SyncModeTest, AStopKeepsTheLinesOfALaterCheckpointThatIsBeingWritten) {
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
  EXPECT_EQ(session_->mode().newest_step(), version + 1);
  // All tasks end with this status, which differs from that of a run that was trained to its end.
  EXPECT_EQ(session_->failure(), absl::CancelledError("stopped on request"));
}

class LastCutTest : public TrainingSessionTest {
 protected:
  // Trains up to a step, of which ps/1 may not have all contributions.
  void TrainUpTo(uint64_t step, uint64_t version_of_ps_1) {
    StartTraining();
    ReportStepsUpTo(step);
    ps_versions_[0] = step;
    ps_versions_[1] = version_of_ps_1;
    answer_cuts_ = true;
  }
  void StopWithoutWorkers() {
    v1::RequestStopRequest stop;
    stop.set_stop(true);
    stop.set_no_more_steps(true);
    ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
    Act();
  }
};

TEST_F(LastCutTest, AStopThatNoWorkerServesSavesTheLastStep) {
  TrainUpTo(3, 3);
  StopWithoutWorkers();
  EXPECT_THAT(cut_versions_, ElementsAre(3, 3));
  PassTime(10, ps_);  // It may take its time, unlike a cut that needs another step.
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  Cut(3);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_EQ(session_->mode().newest_step(), 3u);
}

TEST_F(LastCutTest, AStepThatWasNotReportedYetIsSavedToo) {
  TrainUpTo(3, 3);
  ps_versions_[0] = ps_versions_[1] = 4;
  StopWithoutWorkers();
  PassTime(1, ps_);
  ASSERT_FALSE(cut_versions_.empty());
  EXPECT_EQ(cut_versions_.back(), 4u);
  Cut(4);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->mode().newest_step(), 4u);
}

TEST_F(LastCutTest, AStepThatOnePsLacksIsNotWaitedForLong) {
  TrainUpTo(3, 2);
  StopWithoutWorkers();
  PassTime(1, ps_);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  PassTime(4, ps_);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(notes_,
              Contains(HasSubstr("could not make a checkpoint in time, and the run has none")));
}

TEST_F(LastCutTest, AStepThatIsInTheLastCheckpointIsNotSavedAgain) {
  StartTraining();
  Cut(2);
  ManifestIsWritten(manifests_[0]);
  StopWithoutWorkers();
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(cut_versions_, IsEmpty());
}

TEST_F(LastCutTest, ItDoesNotWaitForAnEvaluation) {
  evaluation_blocks_ = 1;
  StartTraining();
  const uint64_t last_step = session_->plan()->last_step;
  ReportStepsUpTo(last_step);  // The run evaluates it.
  StopWithoutWorkers();
  Cut(last_step);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(notes_, Contains(HasSubstr(": the steps ended before workers had sent every part")));
}

TEST_F(LastCutTest, ItDoesNotWaitForAnEvaluationIfAllWorkersHaveDied) {
  evaluation_blocks_ = 1;
  StartTraining();
  const uint64_t last_step = session_->plan()->last_step;
  ReportStepsUpTo(last_step);
  PassTime(40, ps_);  // The leases of the workers end.
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  Cut(last_step);
  PassTime(1, ps_);
  EXPECT_THAT(manifests_, IsEmpty());  // A worker may come back for the evaluation.
  PassTime(3, ps_);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("in time"))));
}

TEST_F(LastCutTest, AnErrorWaitsForItAndNamesIt) {
  TrainUpTo(3, 3);
  PassTime(320, ps_);  // Their leases end, then cluster.wait_seconds.
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  EXPECT_THAT(cut_versions_, Contains(3));
  Cut(3);
  ASSERT_EQ(manifests_.size(), 1u);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_FAILED);
  EXPECT_TRUE(absl::IsUnavailable(session_->failure()));
  EXPECT_THAT(std::string(session_->failure().message()),
              AllOf(HasSubstr("any of worker/0 to worker/1 to come back"),
                    HasSubstr(". The last checkpoint is that of step 3, cut-3")));
}

TEST_F(SyncModeTest, AGapInTheStepsIsAnsweredWithTheLastStepBeforeIt) {
  StartTraining();
  v1::ReportStepsRequest steps;
  *steps.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  steps.add_steps()->set_step(1);
  steps.add_steps()->set_step(3);
  EXPECT_TRUE(session_->ReportSteps(now_, steps).ok());
  EXPECT_EQ(session_->reported_steps(), 1u);
  EXPECT_EQ(session_->mode().newest_step(), 1u);
  steps.mutable_steps(0)->set_step(2);
  EXPECT_TRUE(session_->ReportSteps(now_, steps).ok());
  EXPECT_EQ(session_->reported_steps(), 3u);
}

TEST_F(SyncModeTest, ReportsAboutUnknownVersionsBlocksAndSlicesAreRefused) {
  evaluation_blocks_ = 2;
  StartTraining();
  v1::ReportEvaluationRequest evaluation;
  *evaluation.mutable_identity() = IdentityOf(v1::JOB_WORKER, 0);
  evaluation.set_version(session_->plan()->last_step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportEvaluation(now_, evaluation)));
  evaluation.set_version(session_->plan()->last_step);
  EXPECT_TRUE(session_->ReportEvaluation(now_, evaluation).ok());
  evaluation.set_block(2);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportEvaluation(now_, evaluation)));
  v1::ReportNormsRequest norms;
  *norms.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  norms.add_slices(2);
  norms.add_squared_norms(1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportNorms(now_, norms)));
  norms.set_slices(0, 0);
  norms.set_step(session_->plan()->last_step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportNorms(now_, norms)));
  v1::ReportShardRequest shard;
  *shard.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  shard.set_version(session_->plan()->last_step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(session_->ReportShard(now_, shard)));
}

TEST_F(SyncModeTest, NormsAreTakenFromTheLivePsOfThisLineageOnly) {
  StartTraining();
  v1::ReportNormsRequest good;
  *good.mutable_identity() = IdentityOf(v1::JOB_PS, 0);
  good.set_step(0);
  for (const uint32_t slice : {0u, 1u}) {
    good.add_slices(slice);
    good.add_squared_norms(4);
  }
  const auto refused = [&](auto change) {
    v1::ReportNormsRequest bad = good;
    change(bad.mutable_identity());
    return session_->ReportNorms(now_, bad).code();
  };
  using Code = absl::StatusCode;
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_run_id("other"); }), Code::kFailedPrecondition);
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_term(0); }), Code::kAborted);
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_incarnation(99); }), Code::kAborted);
  EXPECT_EQ(refused([](v1::Identity* i) { i->set_lineage(99); }), Code::kAborted);
  EXPECT_EQ(refused([&](v1::Identity* i) { *i = IdentityOf(v1::JOB_WORKER, 0); }),
            Code::kInvalidArgument);
  EXPECT_FALSE(session_->NormScale(session_->state().lineage(), 0).has_value());
  EXPECT_TRUE(session_->ReportNorms(now_, good).ok());
  EXPECT_TRUE(session_->NormScale(session_->state().lineage(), 0).has_value());
}

}  // namespace
}  // namespace shoal
