#include "worker/replica/loop_checkpoints.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

// One variable that an Adam of a program trains, and its checkpoints.
class LoopCheckpointsTest : public testing::Test {
 protected:
  LoopCheckpointsTest() {
    v1::VariableSpec& spec = *loop_.add_variables();
    spec.set_name("w");
    spec.add_shape(100);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_trainable(true);
    spec.mutable_initializer()->set_kind(v1::Initializer::KIND_ZEROS);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
    loop_.set_optimizer("adam");
    optimizer_.set_learning_rate(0.1);
    optimizer_.mutable_adam();
  }

  std::unique_ptr<OwnedVariables> MakeVariables() const {
    return *OwnedVariables::Create({loop_.variables(0)}, &optimizer_, /*seed=*/1);
  }

  static void TakeStep(OwnedVariables* variables) {
    const std::vector<float> gradient(100, 1.0f);
    const float* contributions[] = {gradient.data()};
    ASSERT_OK(variables->ApplyStep(contributions));
  }

  // Returns the step that a new program restores; its value must be that of so many steps.
  uint64_t RestoredStep() {
    auto opened = LoopCheckpoints::Open(disk_, "runs/mine/checkpoints", loop_, /*keep=*/2);
    EXPECT_OK(opened.status());
    const auto restored = MakeVariables(), expected = MakeVariables();
    EXPECT_OK((*opened)->Restore(restored.get()));
    while (expected->step() < restored->step()) TakeStep(expected.get());
    EXPECT_EQ(restored->value(0), expected->value(0));
    EXPECT_EQ(restored->slot(0, 0), expected->slot(0, 0));
    return restored->step();
  }

  FaultyFileSystem disk_;
  v1::Manifest loop_;
  v1::OptimizerConfig optimizer_;
};

TEST_F(LoopCheckpointsTest, ACrashAtAnyChangeOfTheDiskLeavesTheCheckpointBeforeOrTheNewOne) {
  const auto variables = MakeVariables();
  {
    ASSERT_OK_AND_ASSIGN(const auto checkpoints,
                         LoopCheckpoints::Open(disk_, "runs/mine/checkpoints", loop_, 2));
    TakeStep(variables.get());
    ASSERT_OK(checkpoints->Save(*variables, absl::UnixEpoch()));
  }
  uint64_t newest = 1;
  int failures = 0;
  for (int change = 0; newest == 1; ++change) {
    ASSERT_LT(change, 1000);
    ASSERT_OK_AND_ASSIGN(const auto checkpoints,
                         LoopCheckpoints::Open(disk_, "runs/mine/checkpoints", loop_, 2));
    if (variables->step() == 1) TakeStep(variables.get());
    disk_.faults().FailFrom(disk_.faults().num_changes() + change, absl::UnavailableError("off"));
    const absl::Status saved = checkpoints->Save(*variables, absl::UnixEpoch());
    if (!saved.ok()) ++failures;
    disk_.Crash();
    newest = RestoredStep();
    EXPECT_TRUE(newest == 2 || !saved.ok());
  }
  EXPECT_GT(failures, 5);
}

TEST_F(LoopCheckpointsTest, ACheckpointOfARunIsRefused) {
  v1::Manifest run = loop_;
  run.set_run_id("mine");
  const auto variables = MakeVariables();
  {
    ASSERT_OK_AND_ASSIGN(const auto of_run, LoopCheckpoints::Open(disk_, "runs/a", run, 2));
    TakeStep(variables.get());
    ASSERT_OK(of_run->Save(*variables, absl::UnixEpoch()));
  }
  ASSERT_OK_AND_ASSIGN(const auto checkpoints, LoopCheckpoints::Open(disk_, "runs/a", loop_, 2));
  const absl::Status status = checkpoints->Restore(variables.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("is that of a run"));
}

TEST_F(LoopCheckpointsTest, AFullDiskIsNamedAndLeavesTheCheckpointBefore) {
  ASSERT_OK_AND_ASSIGN(const auto checkpoints,
                       LoopCheckpoints::Open(disk_, "runs/mine/checkpoints", loop_, 2));
  const auto variables = MakeVariables();
  TakeStep(variables.get());
  ASSERT_OK(checkpoints->Save(*variables, absl::UnixEpoch()));
  TakeStep(variables.get());
  disk_.SetCapacity(10);
  const absl::Status full = checkpoints->Save(*variables, absl::UnixEpoch());
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(RestoredStep(), 1u);
  // The loop that continues saves the same step when there is space again.
  disk_.SetCapacity(uint64_t{1} << 30);
  ASSERT_OK(checkpoints->Save(*variables, absl::UnixEpoch()));
  EXPECT_EQ(RestoredStep(), 2u);
}

}  // namespace
}  // namespace shoal
