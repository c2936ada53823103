// Tests a whole cluster in this process: chief, parameter servers and workers with the in-process
// transport. Runs with any number of tasks must give the same bytes.
#include "deploy/in_process_cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/summary.h"
#include "tests/cluster/trained_run.h"

namespace shoal {
namespace {

constexpr char kRun[] = R"pb(
  name: "in_process"
  model {
    layer { dense { units: 24 activation: ACTIVATION_KIND_RELU } }
    layer { batch_norm {} }
    layer { dense { units: 5 } }
    weight_decay: 1e-4
  }
  data {
    format: FORMAT_SYNTHETIC_CLASSIFICATION
    features: 12
    classes: 5
    train_examples: 230
    test_examples: 60
    evaluation_block: 25
  }
  optimizer {
    learning_rate: 0.01
    adam {}
  }
  sync { replicas_to_aggregate: 3 }
  cluster { slice_bytes: 256 }
  checkpoint { save_every: 7 }
  batch_size: 16
  num_epochs: 4
  eval_every: 5
)pb";

class InProcessClusterTest : public ::testing::Test {
 protected:
  v1::RunConfig Config(const std::string& extra = "") { return NewRun(kRun, extra, files_.get()); }

  absl::Status Train(const v1::RunConfig& run, uint32_t num_ps, uint32_t num_workers) {
    EXPECT_TRUE(files_->MakeDirectory(run.out()).ok());
    return TrainInProcess(run, num_ps, num_workers, files_.get());
  }

  Values ValuesOf(const v1::RunConfig& run) { return NewestValues(files_.get(), run); }

  Values Trained(uint32_t num_ps, uint32_t num_workers, const std::string& extra = "") {
    const v1::RunConfig run = Config(extra);
    EXPECT_TRUE(IsOkStatus(Train(run, num_ps, num_workers)));
    return ValuesOf(run);
  }

  static ::testing::AssertionResult IsOkStatus(const absl::Status& status) {
    if (status.ok()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << status;
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
};

TEST_F(InProcessClusterTest, AnyNumberOfTasksGivesTheSameBytes) {
  const Values one = Trained(1, 1);
  EXPECT_GE(one.size(), 8u);  // batch norm's moving averages too
  EXPECT_EQ(Trained(2, 2), one);
  EXPECT_EQ(Trained(3, 4), one);  // one worker more than positions
}

TEST_F(InProcessClusterTest, ClippingByGlobalNormGivesTheSameBytes) {
  const std::string clip = "optimizer { clip_by_global_norm: 0.1 }";
  const Values one = Trained(1, 1, clip);
  EXPECT_EQ(Trained(3, 2, clip), one);
  EXPECT_NE(one, Trained(1, 1));  // it does clip
}

constexpr char kGroups[] = R"pb(
  optimizer {
    adamw {}
    clip_by_global_norm: 0.5
    moving_average_decay: 0.9
    schedule { kind: KIND_COSINE end: 1e-4 warmup_steps: 3 }
    group { variables: "dense1/.*" frozen: true }
    group { variables: ".*/biases" weight_decay: 0 learning_rate_multiplier: 2 }
    group { variables: "dense2/.*" weight_decay: 0.1 learning_rate: 0.003 }
  }
)pb";

TEST_F(InProcessClusterTest, RunsWithGroupsGiveTheSameBytesForAnyNumberOfTasks) {
  const Values one = Trained(1, 1, kGroups);
  EXPECT_EQ(Trained(2, 2, kGroups), one);
  EXPECT_EQ(Trained(5, 3, kGroups), one);
  // The frozen layer keeps its initial values, and no other variable does.
  const Values start = Trained(1, 1, absl::StrCat(kGroups, "max_steps: 1"));
  for (const auto& [name, value] : one) {
    const bool is_frozen = name.rfind("dense1/", 0) == 0;
    EXPECT_EQ(start.at(name) == value, is_frozen) << name;
  }
}

TEST_F(InProcessClusterTest, AResumedRunMayHaveOtherGroupsButNotOtherFrozenVariables) {
  v1::RunConfig run = Config(absl::StrCat(kGroups, "max_steps: 9"));
  ASSERT_TRUE(IsOkStatus(Train(run, 2, 2)));
  run.set_max_steps(20);
  run.mutable_optimizer()->mutable_group(1)->set_learning_rate_multiplier(0);
  run.mutable_optimizer()->mutable_group(2)->set_weight_decay(0);
  v1::RunConfig thawed = run;
  thawed.mutable_optimizer()->mutable_group(0)->clear_frozen();
  const absl::Status refused = Train(thawed, 2, 2);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("is frozen in the checkpoint and trained in the model"));
  EXPECT_TRUE(IsOkStatus(Train(run, 1, 2)));
}

TEST_F(InProcessClusterTest, AGroupThatMatchesNoVariableEndsTheStart) {
  const absl::Status refused = Train(Config("optimizer { group { variables: 'conv.*' } }"), 1, 1);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("optimizer.group[0].variables: \"conv.*\" matches the whole "
                                   "name of none of the variables dense1/weights"));
}

TEST_F(InProcessClusterTest, AStoppedRunResumesToTheSameBytes) {
  const Values whole = Trained(2, 2, "max_steps: 20");
  v1::RunConfig run = Config("max_steps: 9");
  ASSERT_TRUE(IsOkStatus(Train(run, 2, 2)));
  run.set_max_steps(20);
  ASSERT_TRUE(IsOkStatus(Train(run, 3, 1)));  // other numbers of tasks
  EXPECT_EQ(ValuesOf(run), whole);
}

TEST_F(InProcessClusterTest, OneCheckpointIsEnoughToKeep) {
  const Values whole = Trained(2, 2, "max_steps: 20");
  v1::RunConfig run = Config("max_steps: 9 checkpoint { keep: 1 save_every: 1 }");
  ASSERT_TRUE(IsOkStatus(Train(run, 2, 2)));
  auto directory = *CheckpointDirectory::Open(*files_, run.out() + "/checkpoints");
  const std::vector<CheckpointName> left = *directory->List();
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].step, 9u);
  run.set_max_steps(20);
  ASSERT_TRUE(IsOkStatus(Train(run, 3, 1)));
  EXPECT_EQ(ValuesOf(run), whole);
}

TEST_F(InProcessClusterTest, AFinishedRunIsReportedAndUnchanged) {
  const v1::RunConfig run = Config("max_steps: 6");
  ASSERT_TRUE(IsOkStatus(Train(run, 1, 1)));
  const Values before = ValuesOf(run);
  ASSERT_TRUE(IsOkStatus(Train(run, 1, 1)));
  EXPECT_EQ(ValuesOf(run), before);
}

TEST_F(InProcessClusterTest, TheSummaryCountsEveryExampleOnce) {
  const v1::RunConfig run = Config();
  ASSERT_TRUE(IsOkStatus(Train(run, 2, 3)));
  const absl::StatusOr<Summary> summary = ReadSummary(files_.get(), run.out());
  ASSERT_TRUE(IsOkStatus(summary.status()));
  EXPECT_EQ(summary->status, "finished");
  EXPECT_EQ(summary->steps, 4u * 5u);  // 15 batches an epoch, three a step
  EXPECT_EQ(summary->examples, 4u * 230u);
  EXPECT_TRUE(summary->test_accuracy.has_value());
}

// The layers to use instead of kRun's.
constexpr char kConvolutional[] = R"pb(
  model {
    layer { reshape { shape: 3 shape: 2 shape: 2 } }
    layer { convolution { channels: 16 kernel: 3 activation: ACTIVATION_KIND_RELU } }
    layer { batch_norm {} }
    layer { flatten {} }
    layer { dense { units: 5 } }
  }
)pb";

TEST_F(InProcessClusterTest, Bfloat16GivesTheSameBytesOnAnyTasksAndLearnsAsFloat32Does) {
  const v1::RunConfig convolutional = *ParseRunConfig(kConvolutional, "convolutional");
  std::vector<Values> values;
  std::vector<double> accuracies;
  for (const char* compute_dtype : {"float32", "bfloat16", "bfloat16"}) {
    v1::RunConfig run = Config("num_epochs: 12");
    *run.mutable_model() = convolutional.model();
    run.set_compute_dtype(compute_dtype);
    ResolveDefaults(TaskCounts(), &run);
    const uint32_t num_tasks = values.size() == 1 ? 1 : 2;
    ASSERT_TRUE(IsOkStatus(Train(run, num_tasks, num_tasks)));
    values.push_back(ValuesOf(run));
    accuracies.push_back(ReadSummary(files_.get(), run.out())->test_accuracy.value_or(0));
  }
  EXPECT_EQ(values[1], values[2]);
  EXPECT_NE(values[0], values[1]);
  EXPECT_GT(accuracies[0], 0.8);
  EXPECT_NEAR(accuracies[1], accuracies[0], 0.05);
}

// 5 steps an epoch.
TEST_F(InProcessClusterTest, AResumeWithAnotherComputeTypeIsForAnEpochsStart) {
  v1::RunConfig run = Config("max_steps: 7");
  ASSERT_TRUE(IsOkStatus(Train(run, 1, 1)));
  run.set_compute_dtype("bfloat16");
  run.set_max_steps(10);
  const absl::Status status = Train(run, 1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("compute_dtype is bfloat16 (was float32)"));
  run.set_compute_dtype("float32");
  ASSERT_TRUE(IsOkStatus(Train(run, 1, 1)));
  run.set_compute_dtype("bfloat16");
  run.set_max_steps(12);
  ASSERT_TRUE(IsOkStatus(Train(run, 1, 1)));
  run.set_compute_dtype("float32");
  run.set_max_steps(13);
  EXPECT_THAT(std::string(Train(run, 1, 1).message()),
              ::testing::HasSubstr("compute_dtype is float32 (was bfloat16)"));
}

constexpr char kAsync[] = "sync { sync_replicas: false }";

TEST_F(InProcessClusterTest, AsynchronouslyEveryExampleCountsOnceToo) {
  const v1::RunConfig run = Config(kAsync);
  ASSERT_TRUE(IsOkStatus(Train(run, 2, 3)));
  const absl::StatusOr<Summary> summary = ReadSummary(files_.get(), run.out());
  ASSERT_TRUE(IsOkStatus(summary.status()));
  EXPECT_EQ(summary->steps, 4u * 15u);
  EXPECT_EQ(summary->examples, 4u * 230u);
  EXPECT_EQ(summary->skipped_batches, 0u);
  EXPECT_THAT(RecordedSteps(files_.get(), run), ::testing::SizeIs(4 * 15));
}

TEST_F(InProcessClusterTest, AClockBoundLimitsTheLatenessOfContributions) {
  constexpr uint64_t kWorkers = 3, kBound = 1;
  v1::RunConfig run = Config(kAsync);
  run.mutable_sync()->set_clock_bound(kBound);
  ASSERT_TRUE(IsOkStatus(Train(run, 2, kWorkers)));
  uint64_t most = 0;
  for (const StepMetrics& step : RecordedSteps(files_.get(), run))
    most = std::max(most, step.staleness.value_or(0));
  EXPECT_LE(most, (kWorkers - 1) * (2 * kBound + 1));
  const absl::StatusOr<Summary> summary = ReadSummary(files_.get(), run.out());
  ASSERT_TRUE(IsOkStatus(summary.status()));
  EXPECT_EQ(summary->steps, 4u * 15u);
  EXPECT_EQ(summary->examples, 4u * 230u);
}

TEST_F(InProcessClusterTest, TheSummaryCountsSkippedBatches) {
  const std::string diverges = "optimizer { learning_rate: 1e30 }";
  v1::RunConfig sync = Config(diverges);
  sync.set_max_steps(4);
  v1::RunConfig async = Config(diverges + kAsync);
  async.set_num_epochs(1);
  for (const v1::RunConfig& run : {sync, async}) {
    ASSERT_TRUE(IsOkStatus(Train(run, 2, 2)));
    const absl::StatusOr<Summary> summary = ReadSummary(files_.get(), run.out());
    ASSERT_TRUE(IsOkStatus(summary.status()));
    EXPECT_GT(summary->skipped_batches, 0u) << run.out();
    EXPECT_LT(summary->skipped_batches, 20u) << run.out();
  }
}

TEST_F(InProcessClusterTest, ADivergingRunFailsAndLeavesFiniteCheckpoints) {
  // The rate from step 3 on, and gradients above 1, are too much for any weight.
  const std::string diverging =
      "model { weight_decay: 100 } "
      "optimizer { sgd {} learning_rate: 0.001 "
      "            schedule { kind: KIND_STEP boundary: 3 value: 3e41 } } "
      "checkpoint { save_every: 1 } max_steps: 6 ";
  for (const char* mode : {"", "sync { sync_replicas: false }"}) {
    for (const uint32_t tasks : {1u, 2u}) {
      v1::RunConfig run = Config(diverging + mode);
      const absl::Status status = Train(run, tasks, tasks);
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("learning_rate"));
      const absl::StatusOr<Summary> summary = ReadSummary(files_.get(), run.out());
      ASSERT_TRUE(IsOkStatus(summary.status()));
      EXPECT_EQ(summary->status, "failed");
      // An earlier checkpoint, from which the run resumes with a lower rate.
      run.mutable_optimizer()->clear_schedule();
      ASSERT_TRUE(IsOkStatus(Train(run, tasks, tasks))) << mode << tasks;
      for (const auto& [name, values] : ValuesOf(run)) {
        for (const float value : values) EXPECT_TRUE(std::isfinite(value)) << name;
      }
    }
  }
}

TEST_F(InProcessClusterTest, AChiefThatANewerOneHasReplacedEndsAndWritesNothingMore) {
  const v1::RunConfig run = Config("num_epochs: 100000 checkpoint { save_every: 1 }");
  absl::Status status;
  std::thread trains([&] { status = Train(run, 1, 1); });
  while (!ReadFile(*files_, run.out() + "/metrics.jsonl").ok()) std::this_thread::yield();
  EXPECT_TRUE(WriteAtomically(*files_, run.out() + "/TERM", "99\n").ok());
  trains.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("newer chief, of term 99"));
  EXPECT_FALSE(ReadSummary(files_.get(), run.out()).ok());
}

TEST_F(InProcessClusterTest, TheMemoryOfAPsIsBoundedInOneProcessToo) {
  const std::string large = "model { layer { dense { units: 400000 } } } max_steps: 1 ";
  const absl::Status refused =
      Train(Config(large + "cluster { slice_bytes: 1048576 ps_memory: 67108864 }"), 1, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("but cluster.ps_memory allows 64 MiB"));
}

TEST_F(InProcessClusterTest, AnotherModelThanTheCheckpointsIsRefusedByName) {
  v1::RunConfig run = Config("max_steps: 3");
  ASSERT_TRUE(IsOkStatus(Train(run, 1, 1)));
  run.set_max_steps(6);
  run.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(25);
  const absl::Status status = Train(run, 1, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("shape"));
}

}  // namespace
}  // namespace shoal
