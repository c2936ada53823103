#include "chief/session/unplanned_mode.h"

#include <memory>

#include "gtest/gtest.h"

#include "chief/session/admission.h"
#include "chief/session/roster.h"
#include "chief/session/session_options_testing.h"

namespace shoal {
namespace {

// A session before its first worker. Its mode is UnplannedMode.
class UnplannedModeTest : public ::testing::Test {
 protected:
  explicit UnplannedModeTest(const SessionOptions& options = TestSessionOptions())
      : context_(options),
        roster_(&context_),
        admission_(&context_, &roster_),
        bad_batches_(&context_, &admission_) {
    context_.SetMode(std::make_unique<UnplannedMode>(&context_, &bad_batches_));
  }

  TrainingMode& mode() { return *context_.mode; }

  const absl::Time now_ = absl::UnixEpoch();
  SessionContext context_;
  Roster roster_;
  Admission admission_;
  BadBatches bad_batches_;
};

class ResumedUnplannedModeTest : public UnplannedModeTest {
 protected:
  ResumedUnplannedModeTest() : UnplannedModeTest(Resumed()) {}

  static SessionOptions Resumed() {
    SessionOptions options = TestSessionOptions();
    options.manifest.emplace();
    options.manifest->set_step(12);
    options.manifest_directory = "step-12";
    return options;
  }
};

TEST_F(UnplannedModeTest, WorkersAreAskedToTryAgainLater) {
  EXPECT_TRUE(absl::IsUnavailable(mode().ReportSteps(now_, v1::ReportStepsRequest())));
  EXPECT_TRUE(absl::IsUnavailable(
      mode().AddEvaluation(now_, v1::ReportEvaluationRequest(), EvaluationSums())));
  EXPECT_TRUE(absl::IsUnavailable(mode().LeaseBatches(now_, v1::LeaseBatchesRequest()).status()));
}

TEST_F(UnplannedModeTest, ANewRunHasNothingToSave) {
  EXPECT_EQ(mode().newest_step(), 0u);
  EXPECT_EQ(mode().reported_steps(), 0u);
  EXPECT_EQ(mode().num_epochs(), 0u);
  EXPECT_TRUE(mode().skipped().empty());
  EXPECT_FALSE(mode().CanCut());
  EXPECT_FALSE(mode().SaveNow());
  EXPECT_EQ(mode().RequestCut(), 0u);
  EXPECT_FALSE(mode().AwaitedFinalCut().has_value());
  EXPECT_FALSE(mode().NewestWrittenVersion(now_).has_value());
}

TEST_F(ResumedUnplannedModeTest, AResumedRunIsAtItsCheckpoint) {
  EXPECT_EQ(mode().newest_step(), 12u);
  EXPECT_EQ(mode().reported_steps(), 12u);
  EXPECT_EQ(mode().RequestCut(), 12u);
}

TEST_F(UnplannedModeTest, TheRunEndsWhenItIsAskedToStopAndNotBefore) {
  mode().FinishIfDurable(now_);
  EXPECT_FALSE(context_.phases.is_over());
  context_.phases.Interrupt("a signal");
  mode().FinishIfDurable(now_);
  EXPECT_TRUE(context_.phases.is_over());
  EXPECT_TRUE(absl::IsCancelled(context_.phases.failure()));
  const uint64_t number = context_.phases.state().number();
  mode().FinishIfDurable(now_);
  EXPECT_EQ(context_.phases.state().number(), number) << "it has ended already";
}

}  // namespace
}  // namespace shoal
