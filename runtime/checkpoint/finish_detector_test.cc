#include "runtime/checkpoint/finish_detector.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/observability/summary.h"
#include "runtime/plan/step_plan.h"

namespace shoal {
namespace {

constexpr absl::Duration kLease = absl::Seconds(10);
constexpr absl::Duration kPatience = absl::Seconds(30);

// A run of 100 examples, in batches of 10, that has finished two epochs.
class FinishDetectorTest : public ::testing::Test {
 protected:
  FinishDetectorTest() {
    run_.set_out(::testing::TempDir() + "/" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name());
    run_.set_num_epochs(2);
    EXPECT_OK(files_->MakeDirectory(run_.out()));
  }

  void WriteStatus(const std::string& status, uint64_t steps) {
    Summary summary;
    summary.status = status;
    summary.steps = steps;
    ASSERT_OK(WriteSummary(files_.get(), run_.out(), summary));
  }
  void WriteCheckpoint(uint64_t step) {
    StepPlan::Options plan;
    plan.examples_per_epoch = 100;
    plan.batch_examples = 10;
    v1::Manifest manifest;
    StepPlan::Create(plan)->ToProto(manifest.mutable_plan());
    manifest.set_synchronous(true);
    manifest.set_step(step);
    const std::string name =
        run_.out() + "/checkpoints/ckpt-" + std::to_string(step) + "-1-0000000000000001";
    ASSERT_OK(files_->MakeDirectory(run_.out() + "/checkpoints"));
    ASSERT_OK(files_->MakeDirectory(name));
    ASSERT_OK(WriteManifest(*files_, name, manifest));
  }
  std::unique_ptr<FinishDetector> Watch() {
    return std::make_unique<FinishDetector>(files_.get(), &clock_, run_, kLease);
  }
  // The detector gives no answer at its start, and one after the patience.
  bool IsOverAfterAWhile(FinishDetector* watched) {
    EXPECT_FALSE(watched->IsOver());
    clock_.Advance(kPatience - absl::Seconds(1));
    EXPECT_FALSE(watched->IsOver());
    clock_.Advance(absl::Seconds(1));
    return watched->IsOver();
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  FakeClock clock_;
  v1::RunConfig run_;
};

TEST_F(FinishDetectorTest, ASummaryThatComesWhileItWaitsCountsAtOnce) {
  WriteStatus("finished", 10);
  const auto watched = Watch();
  EXPECT_FALSE(watched->IsOver());
  WriteStatus("finished", 20);
  EXPECT_TRUE(watched->IsOver());
}

TEST_F(FinishDetectorTest, AnOldSummaryCountsIfTheChiefDoesNotAnswerForAWhile) {
  WriteStatus("finished", 20);
  WriteCheckpoint(10);
  WriteCheckpoint(20);
  EXPECT_TRUE(IsOverAfterAWhile(Watch().get()));
}

TEST_F(FinishDetectorTest, ARunThatWillBeResumedIsNotOver) {
  WriteStatus("finished", 20);
  WriteCheckpoint(20);
  run_.set_num_epochs(3);
  EXPECT_FALSE(IsOverAfterAWhile(Watch().get()));
}

TEST_F(FinishDetectorTest, ARunWithoutItsCheckpointIsNotOver) {
  WriteStatus("finished", 20);
  EXPECT_FALSE(IsOverAfterAWhile(Watch().get()));
  WriteCheckpoint(10);
  EXPECT_FALSE(IsOverAfterAWhile(Watch().get()));
}

// The chief was killed between its last checkpoint and the summary; one that is started again finds
// nothing to do and serves nobody.
TEST_F(FinishDetectorTest, TheLastCheckpointIsEnoughIfTheChiefDoesNotAnswer) {
  WriteStatus("stopped", 10);
  WriteCheckpoint(20);
  EXPECT_TRUE(IsOverAfterAWhile(Watch().get()));
}

}  // namespace
}  // namespace shoal
