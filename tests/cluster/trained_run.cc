#include "tests/cluster/trained_run.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "deploy/in_process_cluster.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/summary.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"
#include "worker/replica/trained_variables.h"

namespace shoal {

v1::RunConfig NewRun(const std::string& text, const std::string& extra, FileSystem* disk) {
  static int runs = 0;
  v1::RunConfig run = *ParseRunConfig(text, "test");
  run.MergeFrom(*ParseRunConfig(extra, "extra"));
  run.set_out(absl::StrCat(::testing::TempDir(), "/run_", ++runs, "_",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name()));
  EXPECT_TRUE(RemoveTree(*disk, run.out()).ok());
  ResolveDefaults(TaskCounts(), &run);
  return run;
}

absl::Status TrainInProcess(v1::RunConfig run, uint32_t num_ps_tasks, uint32_t num_workers,
                            FileSystem* disk) {
  const RealClock clock;
  ShutdownNotification shutdown;
  TaskOptions options;
  options.run = std::move(run);
  options.run.mutable_deployment()->set_num_replicas(num_workers);
  options.run.mutable_deployment()->set_num_ps_tasks(num_ps_tasks);
  options.clock = &clock;
  options.file_system = disk;
  options.shutdown = &shutdown;
  return RunInProcess(options, num_ps_tasks, num_workers);
}

Values NewestValues(FileSystem* disk, const v1::RunConfig& run) {
  const auto directory = *CheckpointDirectory::Open(*disk, run.out() + "/checkpoints");
  std::vector<std::string> rejected;
  const auto checkpoint = *directory->OpenLatestValid(Checkpoint::Verify::kEverything, &rejected);
  EXPECT_TRUE(rejected.empty());
  const std::vector<std::vector<float>> variables = *ReadVariables(checkpoint.get());
  Values values;
  for (size_t i = 0; i < variables.size(); ++i) {
    values[checkpoint->manifest().variables(static_cast<int>(i)).name()] = variables[i];
  }
  return values;
}

std::vector<StepMetrics> RecordedSteps(FileSystem* disk, const v1::RunConfig& run) {
  std::vector<StepMetrics> steps;
  const std::string text = *ReadFile(*disk, run.out() + "/metrics.jsonl");
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    steps.push_back(*ParseMetricsLine(line));
  }
  return steps;
}

std::vector<double> RecordedLosses(FileSystem* disk, const v1::RunConfig& run) {
  std::vector<double> losses;
  for (const StepMetrics& step : RecordedSteps(disk, run)) losses.push_back(step.loss);
  const absl::StatusOr<Summary> summary = ReadSummary(disk, run.out());
  EXPECT_TRUE(summary.ok()) << summary.status();
  if (summary.ok()) losses.push_back(summary->test_loss.value_or(-1));
  return losses;
}

}  // namespace shoal
