#include "worker/evaluator/evaluator_task.h"

#include "gtest/gtest.h"

#include "runtime/observability/summary.h"

namespace shoal {
namespace {

Summary Finished(uint64_t steps, double epochs) {
  Summary summary;
  summary.status = "finished";
  summary.steps = steps;
  summary.epochs = epochs;
  return summary;
}

TEST(IsRunFinishedTest, OnlyWhatGotAsFarAsTheRunWillGo) {
  v1::RunConfig run;
  run.set_num_epochs(5);
  EXPECT_TRUE(IsRunFinished(Finished(100, 5), run));
  EXPECT_FALSE(IsRunFinished(Finished(60, 3), run)) << "an earlier end, before it was resumed";
  run.set_max_steps(60);
  EXPECT_TRUE(IsRunFinished(Finished(60, 3), run));
}

TEST(IsRunFinishedTest, NotOneThatStoppedOrFailed) {
  v1::RunConfig run;
  run.set_num_epochs(5);
  Summary summary = Finished(100, 5);
  for (const char* status : {"stopped", "failed"}) {
    summary.status = status;
    EXPECT_FALSE(IsRunFinished(summary, run));
  }
}

}  // namespace
}  // namespace shoal
