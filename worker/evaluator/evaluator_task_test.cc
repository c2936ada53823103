#include "worker/evaluator/evaluator_task.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/summary.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"
#include "runtime/variables/owned_variables.h"
#include "worker/replica/loop_checkpoints.h"
#include "worker/replica/replica_inputs.h"

namespace shoal {
namespace {

Summary Finished(uint64_t steps, double epochs) {
  Summary summary;
  summary.status = "finished";
  summary.steps = steps;
  summary.epochs = epochs;
  return summary;
}

TEST(IsRunFinishedTest, ARunThatHasMadeAllItsStepsIsFinished) {
  v1::RunConfig run;
  run.set_num_epochs(5);
  EXPECT_TRUE(IsRunFinished(Finished(100, 5), run));
  EXPECT_FALSE(IsRunFinished(Finished(60, 3), run)) << "an earlier end, before it was resumed";
  run.set_max_steps(60);
  EXPECT_TRUE(IsRunFinished(Finished(60, 3), run));
}

TEST(IsRunFinishedTest, WithMaxStepsAloneOnlyTheStepsCount) {
  v1::RunConfig run;
  run.set_max_steps(100);
  EXPECT_FALSE(IsRunFinished(Finished(60, 3), run)) << "an earlier end, before it was resumed";
  Summary without_epochs = Finished(60, 0);
  without_epochs.epochs.reset();
  EXPECT_FALSE(IsRunFinished(without_epochs, run));
  EXPECT_TRUE(IsRunFinished(Finished(100, 5), run));
}

TEST(IsRunFinishedTest, EachEndCountsWhereTheRunFileHasNoLength) {
  EXPECT_TRUE(IsRunFinished(Finished(60, 3), v1::RunConfig()));
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

TEST(SummaryOfEarlierEndTest, NotWhileALaterStartIsUnderWay) {
  const std::string directory = ::testing::TempDir() + "/resumed";
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(RemoveTree(*files, directory).ok());
  ASSERT_TRUE(files->MakeDirectory(directory).ok());
  ASSERT_TRUE(WriteSummary(files.get(), directory, Finished(200, 1)).ok());
  v1::RunConfig run;
  run.set_out(directory);
  run.set_max_steps(6000);
  run.set_num_epochs(100);
  ASSERT_TRUE(SummaryOfEarlierEnd(run).has_value());
  EXPECT_EQ(SummaryOfEarlierEnd(run)->steps, 200);
  ASSERT_TRUE(WriteAtomically(*files, directory + "/cluster.textproto", "").ok());
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory + "/summary.json").c_str(), past, 0), 0);
  EXPECT_FALSE(SummaryOfEarlierEnd(run).has_value()) << "it was resumed";
}

// A finished run with one checkpoint, on a disk that fails on command.
class RunEvaluatorTest : public ::testing::Test {
 protected:
  RunEvaluatorTest() {
    v1::RunConfig& run = options_.run;
    run.set_out("run");
    run.set_num_epochs(1);
    run.mutable_model()->set_name("softmax_regression");
    run.mutable_data()->set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
    run.mutable_data()->set_features(8);
    run.mutable_data()->set_train_examples(100);
    run.mutable_data()->set_test_examples(20);
    ResolveDefaults(TaskCounts(), &run);
    options_.task = {Job::kEvaluator, 0};
    options_.clock = &clock_;
    options_.file_system = &disk_;
    options_.shutdown = &shutdown_;
    SaveCheckpoint();
    EXPECT_TRUE(WriteSummary(&disk_, "run", Finished(10, 1)).ok());
  }

  void SaveCheckpoint() {
    const auto inputs = LoadReplicaInputs(options_.run, 0, ModelFromRunFile());
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    v1::Manifest loop;
    *loop.mutable_variables() = inputs->declaration.variables();
    const auto variables = OwnedVariables::Create(
        {loop.variables().begin(), loop.variables().end()}, /*optimizer=*/nullptr, /*seed=*/1);
    ASSERT_TRUE(variables.ok()) << variables.status();
    const auto checkpoints = LoopCheckpoints::Open(disk_, "run/checkpoints", loop, /*keep=*/1);
    ASSERT_TRUE(checkpoints.ok()) << checkpoints.status();
    const absl::Status saved = (*checkpoints)->Save(**variables, absl::UnixEpoch());
    ASSERT_TRUE(saved.ok()) << saved;
  }

  // Runs an evaluator and returns the lines that it leaves.
  std::string Evaluate() {
    const absl::Status status = RunEvaluator(options_, ModelFromRunFile());
    EXPECT_TRUE(status.ok()) << status;
    const std::string lines = ReadFile(disk_, "run/evaluator.jsonl").value_or("");
    disk_.Remove("run/evaluator.jsonl").IgnoreError();  // It may not be there.
    return lines;
  }

  const RealClock clock_;
  FaultyFileSystem disk_;
  ShutdownNotification shutdown_;
  TaskOptions options_;
};

TEST_F(RunEvaluatorTest, AReadThatFailsLeavesNoCheckpointOut) {
  const int before = disk_.faults().num_reads();
  EXPECT_NE(Evaluate().find("\"checkpoint\""), std::string::npos);
  const int reads = disk_.faults().num_reads() - before - 3;  // Evaluate itself reads three times.
  ASSERT_GT(reads, 10);
  for (int k = 0; k < reads; k += 3) {
    disk_.faults().FailReadAt(disk_.faults().num_reads() + k, absl::UnavailableError("stale"));
    EXPECT_NE(Evaluate().find("\"checkpoint\""), std::string::npos) << "read " << k;
  }
}

TEST_F(RunEvaluatorTest, TheLogSaysWhichGpusItUses) {
  options_.run.mutable_deployment()->set_clone_on_cpu(true);
  ::testing::internal::CaptureStderr();
  EXPECT_NE(Evaluate(), "");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("] GPUs: not used; clone_on_cpu is set\n"), std::string::npos) << log;
}

TEST_F(RunEvaluatorTest, ADamagedCheckpointIsLeftOut) {
  const auto names = disk_.List("run/checkpoints");
  ASSERT_TRUE(names.ok()) << names.status();
  for (const std::string& name : *names) {
    const std::string manifest = "run/checkpoints/" + name + "/MANIFEST";
    if (!FileExists(disk_, manifest)) continue;
    EXPECT_TRUE(WriteAtomically(disk_, manifest, "damage").ok());
  }
  EXPECT_EQ(Evaluate(), "");
}

}  // namespace
}  // namespace shoal
