#include "deploy/launch/divergence.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/metrics_file.h"

namespace shoal {
namespace {

class DivergenceTest : public ::testing::Test {
 protected:
  DivergenceTest() {
    run_.set_out("/run");
    run_.mutable_optimizer()->set_learning_rate(0.5);
    EXPECT_OK(disk_.MakeDirectory("/run"));
  }

  std::string AddCheckpoint(uint64_t step) {
    const std::string path = "/run/checkpoints/" + CheckpointName{step, 1, 7}.ToString();
    EXPECT_OK(disk_.MakeDirectory(path));
    EXPECT_OK(WriteAtomically(disk_, path + "/MANIFEST", "x"));
    return path;
  }

  // Steps up to `last_finite` have the loss 0.25, the later ones none.
  void WriteLosses(uint64_t last_finite, uint64_t last) {
    std::string text;
    for (uint64_t step = 1; step <= last; ++step) {
      StepMetrics line;
      line.step = step;
      line.loss = step <= last_finite ? 0.25 : std::nan("");
      text += MetricsLine(line);
    }
    EXPECT_OK(WriteAtomically(disk_, "/run/metrics.jsonl", text));
  }

  std::string Continue(const std::string& error = "training diverges; lower --learning_rate") {
    return HowToContinue(error, run_, "shoal train", &disk_);
  }

  v1::RunConfig run_;
  FaultyFileSystem disk_;
  const std::string rate_ = " --learning_rate=0.05   # a tenth of the rate\n";
};

TEST_F(DivergenceTest, ARunContinuesFromItsNewestCheckpointIfThatIsFromBefore) {
  AddCheckpoint(4);
  const std::string path = AddCheckpoint(8);
  WriteLosses(9, 10);
  EXPECT_EQ(Continue(),
            "checkpoint:    " + path +
                ", the newest from before the training diverged (the loss of its next step "
                "is 0.2500)\ncontinue:      shoal train --run=/run/run.textproto" +
                rate_);
}

TEST_F(DivergenceTest, AnotherRunContinuesFromAnEarlierOne) {
  const std::string path = AddCheckpoint(4);
  AddCheckpoint(8);
  AddCheckpoint(28);  // The last one of the run, of which no step is known.
  WriteLosses(8, 28);
  EXPECT_EQ(Continue(),
            "checkpoint:    " + path +
                ", the newest from before the training diverged (the loss of its next step is "
                "0.2500)\ncontinue:      shoal train --run=/run/run.textproto --out=/run-lower "
                "--init_state --init_from=" +
                path + rate_);
  run_.add_init_map("body/(.*)=resnet50/\\1");
  EXPECT_THAT(Continue(),
              ::testing::HasSubstr("--init_from=" + path + " --init_map='(.*)=\\1'" + rate_));
}

TEST_F(DivergenceTest, WithoutOneFromBeforeTheRunStartsAgain) {
  const std::string again =
      "checkpoint:    none from before the training diverged\n"
      "start again:   shoal train --run=/run/run.textproto --out=/run-lower";
  EXPECT_EQ(Continue(), again + rate_);
  AddCheckpoint(8);
  WriteLosses(8, 28);
  EXPECT_EQ(Continue(), again + rate_);
  EXPECT_EQ(Continue("training diverges; lower learning_rate in table { name: \"t\" optimizer }"),
            again + "   # with a lower rate\n");
}

}  // namespace
}  // namespace shoal
