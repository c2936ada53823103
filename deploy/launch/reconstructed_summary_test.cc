#include "deploy/launch/reconstructed_summary.h"

#include <string>

#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/metrics_file.h"

namespace shoal {
namespace {

TEST(ReconstructedSummaryTest, ItHasTheLastEvaluationAndTheNewestCheckpoint) {
  FaultyFileSystem disk;
  EXPECT_OK(disk.MakeDirectory("/run"));
  StepMetrics evaluated;
  evaluated.step = 4;
  evaluated.eval_loss = 0.25;
  evaluated.eval_accuracy = 0.75;
  evaluated.eval_examples = 8;
  evaluated.eval_named["auc"] = 0.5;
  StepMetrics last;
  last.step = 5;
  EXPECT_OK(
      WriteAtomically(disk, "/run/metrics.jsonl", MetricsLine(evaluated) + MetricsLine(last)));
  const std::string checkpoint = "/run/checkpoints/" + CheckpointName{4, 1, 7}.ToString();
  EXPECT_OK(disk.MakeDirectory(checkpoint));
  EXPECT_OK(WriteAtomically(disk, checkpoint + "/MANIFEST", "x"));
  const Summary summary =
      SummaryFromFiles(absl::InternalError("killed by SIGKILL"), LastShown(), "/run", &disk);
  EXPECT_EQ(summary.status, "failed");
  EXPECT_EQ(summary.steps, 5u);
  EXPECT_EQ(summary.test_step, 4u);
  EXPECT_EQ(summary.test_loss, 0.25);
  EXPECT_EQ(summary.test_accuracy, 0.75);
  EXPECT_EQ(summary.test_named.at("auc"), 0.5);
  EXPECT_EQ(summary.checkpoint, checkpoint);
}

TEST(ReconstructedSummaryTest, WithoutFilesItHasTheStepThatWasShown) {
  FaultyFileSystem disk;
  const Summary summary = SummaryFromFiles(absl::CancelledError("stopped"), {7, ""}, "/run", &disk);
  EXPECT_EQ(summary.status, "stopped");
  EXPECT_EQ(summary.steps, 7u);
  EXPECT_FALSE(summary.test_step.has_value());
  EXPECT_FALSE(summary.checkpoint.has_value());
}

}  // namespace
}  // namespace shoal
