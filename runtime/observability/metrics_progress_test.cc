#include "runtime/observability/metrics_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "base/clock.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

StepPlan TenStepsAnEpoch() {
  StepPlan::Options options;
  options.examples_per_epoch = 100;
  options.batch_examples = 10;
  options.replicas_to_aggregate = 1;
  return std::move(StepPlan::Create(options)).value();
}

TEST(MetricsProgressTest, APlanShowsHowFarTheRunGoes) {
  const ProgressPlan plan = MakeProgressPlan(TenStepsAnEpoch(), 25, 0);
  EXPECT_EQ(plan.steps_per_epoch, 10u);
  EXPECT_EQ(plan.total_steps, 25u);
  EXPECT_EQ(plan.num_epochs, 3u);
  EXPECT_EQ(MakeProgressPlan(TenStepsAnEpoch(), UINT64_MAX, 4).total_steps, 0u);
  EXPECT_EQ(MakeProgressPlan(TenStepsAnEpoch(), 25, 4).num_epochs, 4u);
}

TEST(MetricsProgressTest, AResumeAndARollbackSayWhichStepsAreComputedAgain) {
  EXPECT_EQ(ResumeText(800, "ckpt-800", 800), "resumes from step 800 (ckpt-800)");
  EXPECT_EQ(ResumeText(800, "ckpt-800", 801),
            "resumes from step 800 (ckpt-800); step 801 is computed again");
  EXPECT_EQ(RollbackText(800, 1045, "ps/0 came back without its state"),
            "back to the last checkpoint, of step 800: ps/0 came back without its state; steps 801 "
            "to 1045 are computed again");
  EXPECT_EQ(RollbackText(0, 0, "ps/0 is new"), "back to step 0: ps/0 is new");
}

TEST(MetricsProgressTest, AnEvaluationGetsALineOfItsOwn) {
  std::string shown;
  ProgressOptions options;
  options.write = [&](absl::string_view text) { shown.append(text.data(), text.size()); };
  const RealClock clock;
  ProgressReporter progress(options, &clock);
  StepMetrics step;
  step.step = 7;
  ShowStep(step, &progress);
  EXPECT_THAT(shown, testing::Not(HasSubstr("test loss")));
  step.step = 8;
  step.eval_loss = 0.5;
  step.eval_accuracy = 0.75;
  ShowStep(step, &progress);
  EXPECT_THAT(shown, HasSubstr("step 8: test loss 0.5000, test accuracy 0.7500\n"));
  step.step = 9;
  step.eval_named = {{"auc", 0.875}, {"f1", std::nullopt}};
  ShowStep(step, &progress);
  EXPECT_THAT(shown,
              HasSubstr("step 9: test loss 0.5000, test accuracy 0.7500, test auc 0.8750\n"));
}

}  // namespace
}  // namespace shoal
