#include "deploy/launch/divergence.h"

#include <cmath>
#include <cstdint>
#include <optional>
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

  // The error of a variable whose update `update` was not finite.
  static std::string ErrorOf(uint64_t update, const std::string& setting = "--learning_rate") {
    return "chief/0: variable w is not finite after the update of step " + std::to_string(update) +
           ": training diverges; lower " + setting +
           " (0.5 there) or clip gradients. There is no "
           "checkpoint yet";
  }

  std::string Continue(const std::string& error = kLimit, std::optional<uint64_t> first_step = 0) {
    return HowToContinue(error, run_, "shoal train", first_step, &disk_);
  }

  static constexpr char kLimit[] =
      "the limit of 20 batches in a row that are not finite is reached: training diverges, or the "
      "data have values that are not finite; lower --learning_rate, clip gradients, or check the "
      "data";

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

TEST_F(DivergenceTest, TheCheckpointBeforeTheUpdateThatWasNotFiniteIsFromBefore) {
  AddCheckpoint(6);
  const std::string path = AddCheckpoint(7);
  WriteLosses(7, 7);
  EXPECT_EQ(Continue(ErrorOf(8)),
            "checkpoint:    " + path +
                ", the newest from before the training diverged (the update of step 8 was not "
                "finite)\ncontinue:      shoal train --run=/run/run.textproto" +
                rate_);
  EXPECT_THAT(Continue(ErrorOf(7)), ::testing::HasSubstr("--out=/run-lower --init_state"))
      << "the checkpoint of step 7 has that update";
}

TEST_F(DivergenceTest, WithoutOneFromBeforeTheRunStartsAgain) {
  const std::string command =
      "start again:   shoal train --run=/run/run.textproto --out=/run-lower" + rate_;
  EXPECT_EQ(Continue(ErrorOf(1)),
            "checkpoint:    none from before the training diverged\n" + command);
  AddCheckpoint(8);
  WriteLosses(8, 28);
  EXPECT_EQ(Continue(),
            "checkpoint:    none from before the training diverged (no finite loss "
            "follows that of step 8)\n" +
                command);
}

TEST_F(DivergenceTest, ARateThatTheFlagDoesNotLowerIsNamed) {
  for (const std::string setting :
       {"learning_rate in table { name: \"t\" optimizer }", "optimizer.group[0].learning_rate"}) {
    EXPECT_THAT(
        Continue(ErrorOf(1, setting)),
        ::testing::HasSubstr("--run=/run/run.textproto --out=/run-lower   # after lowering " +
                             setting + " in that run file\n"));
  }
}

TEST_F(DivergenceTest, IfNoBatchWasFiniteTheLossAndTheDataAreNamed) {
  const std::string cause =
      "cause:         every batch was not finite: check the loss and the data\n";
  const std::string again =
      "start again:   shoal train --run=/run/run.textproto --out=/run-again\n";
  EXPECT_EQ(Continue(), cause + again) << "of an asynchronous run";
  WriteLosses(0, 22);
  const std::string path = AddCheckpoint(22);
  EXPECT_EQ(Continue(), cause + "checkpoint:    that of step 22 has the initial values\n" + again);
  WriteLosses(2, 22);
  const std::string resume = cause + "checkpoint:    " + path +
                             " (its values are those of step 2)\n"
                             "resume:        shoal train --run=/run/run.textproto\n";
  EXPECT_EQ(Continue(kLimit, 2), resume);
  EXPECT_THAT(Continue(kLimit, 1), ::testing::HasSubstr(rate_)) << "step 2 was finite";
  EXPECT_THAT(Continue(kLimit, 4), ::testing::HasSubstr(rate_)) << "it had diverged before";
  WriteLosses(21, 21);
  EXPECT_THAT(Continue(kLimit, std::nullopt), ::testing::HasSubstr("those of step 21)\nresume:"));
  EXPECT_THAT(Continue(kLimit, 22), ::testing::HasSubstr("those of step 22)\nresume:"))
      << "an asynchronous version may be above the steps";
}

TEST_F(DivergenceTest, OtherErrorsGetNoAdvice) {
  for (const char* const error :
       {"ValueError: training diverges (the program of worker/0; log: /run/logs/program-0.out)",
        "ValueError: w is not finite after the update of step 8: stopped", "training diverges"}) {
    EXPECT_EQ(Continue(error), "") << error;
  }
}

TEST_F(DivergenceTest, RepeatedRetriesAreNumbered) {
  run_.set_out("/run-lower");
  EXPECT_THAT(Continue(ErrorOf(1)), ::testing::HasSubstr(" --out=/run-lower2 "));
  EXPECT_OK(disk_.MakeDirectory("/run-lower2"));
  EXPECT_THAT(Continue(ErrorOf(1)), ::testing::HasSubstr(" --out=/run-lower3 "));
  run_.set_out("/run-lower2");
  EXPECT_OK(disk_.MakeDirectory("/run-lower"));
  EXPECT_THAT(Continue(ErrorOf(1)), ::testing::HasSubstr(" --out=/run-lower3 "));
}

}  // namespace
}  // namespace shoal
