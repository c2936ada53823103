#include "deploy/preflight_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "runtime/config/run_config.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreflightCheckTest : public ::testing::Test {
 protected:
  PreflightCheckTest() {
    run_.set_out("run");
    run_.set_batch_size(2);
    run_.set_num_epochs(1);
    ResolveDefaults(TaskCounts(), &run_);
    v1::ModelDeclaration* const model = asked_.mutable_model();
    model->set_train_examples(4);
    model->set_evaluation_blocks(1);
    v1::VariableSpec* const variable = model->add_variables();
    variable->set_name("w");
    variable->set_dtype(v1::DATA_TYPE_FLOAT32);
    variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
    variable->add_shape(3);
  }

  absl::StatusOr<PreflightCheck> Check() {
    return CheckBeforeStart(run_, &disk_, shutdown_, &asked_);
  }

  v1::RunConfig run_;
  v1::WorkerProgram asked_;
  FaultyFileSystem disk_;
  const ShutdownNotification shutdown_;
};

TEST_F(PreflightCheckTest, ARunThatCannotBeSeenNowDoesNotBeginAtStepZero) {
  ASSERT_OK(disk_.MakeDirectory("run"));
  ASSERT_OK_AND_ASSIGN(PreflightCheck check, Check());
  EXPECT_THAT(check.notes, IsEmpty());
  ASSERT_OK(WriteAtomically(disk_, "run/cluster.textproto", ""));
  const int before = disk_.faults().num_reads();
  ASSERT_OK_AND_ASSIGN(check, Check());
  ASSERT_EQ(check.notes.size(), 1u);
  EXPECT_EQ(check.notes[0], "no checkpoint in run: begins at step 0");
  const int reads = disk_.faults().num_reads() - before;
  ASSERT_EQ(reads, 3) << "it looks for checkpoints, cluster.textproto and metrics.jsonl";
  for (int read = 0; read < reads; ++read) {
    disk_.faults().FailReadAt(disk_.faults().num_reads() + read, absl::UnavailableError("stale"));
    EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kUnavailable)) << "read " << read;
    disk_.faults().StopFailing();
  }
}

TEST_F(PreflightCheckTest, ARunThatBeginsAgainSaysWhichStepsItRemoves) {
  ASSERT_OK(disk_.MakeDirectory("run"));
  ASSERT_OK(WriteAtomically(disk_, "run/cluster.textproto", ""));
  StepMetrics first, second;
  first.step = 1;
  second.step = 2;
  ASSERT_OK(WriteAtomically(disk_, "run/metrics.jsonl", MetricsLine(first) + MetricsLine(second)));
  ASSERT_OK_AND_ASSIGN(const PreflightCheck check, Check());
  ASSERT_EQ(check.notes.size(), 1u);
  EXPECT_EQ(check.notes[0],
            "no checkpoint in run: begins at step 0 and removes the 2 steps in metrics.jsonl");
}

TEST_F(PreflightCheckTest, ARunThatMustResumeAndCannotBeSeenNowIsNotMissing) {
  run_.mutable_checkpoint()->set_resume("must");
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kNotFound));
  disk_.faults().FailReadAt(disk_.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(PreflightCheckTest, ARunWhoseCheckpointsWereRemovedDoesNotBeginAtStepZero) {
  ASSERT_OK(disk_.MakeDirectory("run/checkpoints"));
  ASSERT_OK(WriteAtomically(disk_, "run/checkpoints/LATEST", "ckpt-9-1-0000000000000001\n"));
  for (const char* resume : {"auto", "must", "never"}) {
    run_.mutable_checkpoint()->set_resume(resume);
    EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("run/checkpoints/LATEST: names "
                                            "ckpt-9-1-0000000000000001, but no checkpoint is "
                                            "there any more; bring it back to run/checkpoints. To "
                                            "start anew, name another --out, or call `rm "
                                            "run/checkpoints/LATEST`: the next start then removes "
                                            "the steps in metrics.jsonl")))
        << resume;
  }
}

}  // namespace
}  // namespace shoal
