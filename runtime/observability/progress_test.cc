#include "runtime/observability/progress.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"

namespace shoal {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions Options(bool is_terminal) {
    ProgressOptions options;
    options.is_terminal = is_terminal;
    options.write = [this](absl::string_view text) {
      ++writes_;
      output_.append(text.data(), text.size());
    };
    return options;
  }

  // `count` steps of 64 examples, 100 ms each.
  void Run(ProgressReporter* reporter, uint64_t first, uint64_t count, uint32_t epoch = 0) {
    for (uint64_t step = first; step < first + count; ++step) {
      clock_.Advance(absl::Milliseconds(100));
      reporter->Add({step, epoch, 0.5, 0.75, 64});
    }
  }

  FakeClock clock_;
  std::string output_;
  int writes_ = 0;
};

TEST(LossTextTest, LargeLossesAreShort) {
  EXPECT_EQ(LossText(0.41204), "0.4120");
  EXPECT_EQ(LossText(999999), "999999.0000");
  EXPECT_EQ(LossText(5401463808), "5.401e+09");
  EXPECT_EQ(LossText(-2e30), "-2e+30");
}

TEST_F(ProgressTest, ATerminalShowsOneBarWithEverything) {
  ProgressReporter reporter(Options(true), &clock_);
  reporter.SetPlan({0, 100, 50, 2});
  Run(&reporter, 1, 25);
  const std::string last = output_.substr(output_.rfind('\r'));
  EXPECT_THAT(last, HasSubstr("epoch 1/2:  50%|"));
  EXPECT_THAT(last, HasSubstr("| 25/50 [00:02<00:07, 10.0 steps/s, 640 examples/s, loss=0.5000, "
                              "acc=0.7500]"));
  EXPECT_THAT(output_, Not(HasSubstr("\n")));
  reporter.Finish();
  EXPECT_THAT(output_, EndsWith("\n"));
}

TEST_F(ProgressTest, ATerminalIsRedrawnAtMostTenTimesASecond) {
  ProgressReporter reporter(Options(true), &clock_);
  for (uint64_t step = 1; step <= 1000; ++step) {
    clock_.Advance(absl::Milliseconds(1));
    reporter.Add({step, 0, 0.5, std::nullopt, 64});
  }
  EXPECT_LE(writes_, 11);
}

TEST_F(ProgressTest, TheBarFitsTheTerminal) {
  for (const int width : {20, 40, 60, 80, 120}) {
    ProgressOptions options = Options(true);
    options.width = width;
    options.use_unicode = false;
    ProgressReporter reporter(options, &clock_);
    reporter.SetPlan({0, 100, 50, 2});
    output_.clear();
    Run(&reporter, 1, 25);
    const std::string last = output_.substr(output_.rfind("\x1b[K") + 3);
    EXPECT_LT(static_cast<int>(last.size()), width) << last;
  }
}

TEST_F(ProgressTest, MetricsFollowLossAndAccuracyByName) {
  ProgressReporter reporter(Options(false), &clock_);
  reporter.Add({1, 0, 0.5, 0.75, 64, {{"f1", 0.25}, {"auc", 0.5}, {"rare", std::nullopt}}});
  reporter.Add({2, 0, 0.5, 0.75, 64, {{"f1", 0.25}, {"auc", 0.5}, {"rare", std::nullopt}}});
  reporter.Finish();
  EXPECT_THAT(output_, HasSubstr("loss=0.5000, acc=0.7500, auc=0.5000, f1=0.2500\n"));
  EXPECT_THAT(output_, Not(HasSubstr("rare")));
}

TEST_F(ProgressTest, APipeGetsALineEveryFewSeconds) {
  ProgressReporter reporter(Options(false), &clock_);
  reporter.SetPlan({0, 1000, 500, 2});
  Run(&reporter, 1, 99);
  EXPECT_EQ(writes_, 2);
  EXPECT_THAT(output_, HasSubstr("epoch 1/2, step 51/1000 (01:34 left): 10.0 steps/s"));
  EXPECT_THAT(output_, Not(HasSubstr("\r")));
}

TEST_F(ProgressTest, APipeMayAskForEverySoManySteps) {
  ProgressOptions options = Options(false);
  options.log_every = 10;
  ProgressReporter reporter(options, &clock_);
  Run(&reporter, 1, 30);
  EXPECT_EQ(writes_, 3);
}

TEST_F(ProgressTest, LinesArePrintedAboveTheBar) {
  ProgressReporter reporter(Options(true), &clock_);
  Run(&reporter, 1, 3);
  output_.clear();
  reporter.Print("test accuracy 0.9");
  EXPECT_THAT(output_, StartsWith("\r\x1b[Ktest accuracy 0.9\n\r\x1b[K"));
}

TEST_F(ProgressTest, TheActivityIsShownUntilTheNextStep) {
  ProgressReporter reporter(Options(false), &clock_);
  reporter.SetActivity("waiting for worker/1");
  reporter.SetActivity("waiting for worker/1");
  EXPECT_EQ(output_, "waiting for worker/1\n");
  clock_.Advance(absl::Seconds(10));
  Run(&reporter, 1, 1);
  EXPECT_THAT(output_, HasSubstr("step 1"));
}

TEST_F(ProgressTest, AShortRunEndsWithItsNumbersAlthoughAnActivityWasShownLast) {
  for (const bool is_terminal : {false, true}) {
    ProgressReporter reporter(Options(is_terminal), &clock_);
    reporter.SetActivity("waiting for tasks");
    for (uint64_t step = 1; step <= 3; ++step) reporter.Add({step, 0, 0.5, 0.9, 10});
    reporter.SetActivity("waiting for worker/1");
    output_.clear();
    reporter.Finish();
    EXPECT_THAT(output_, HasSubstr("loss=0.5000"));
  }
}

TEST_F(ProgressTest, ATerminalShowsWhatIsWaitedForBeforeTheRunStarts) {
  ProgressReporter reporter(Options(true), &clock_);
  clock_.Advance(absl::Seconds(2));
  reporter.SetActivity("waiting for worker/1");
  EXPECT_EQ(output_, "\r\x1b[K[00:02] waiting for worker/1");
}

TEST_F(ProgressTest, ARollbackMovesTheBarBack) {
  ProgressReporter reporter(Options(true), &clock_);
  reporter.SetPlan({0, 100, 0, 0});
  Run(&reporter, 1, 50);
  reporter.GoBackTo(20);
  clock_.Advance(absl::Seconds(1));
  reporter.Tick();
  EXPECT_THAT(output_.substr(output_.rfind('\r')), HasSubstr(" 20/100 "));
}

TEST_F(ProgressTest, ARollbackForgetsTheMeansAndTheEpochOfTheStepsThatAreVoid) {
  ProgressReporter reporter(Options(true), &clock_);
  reporter.SetPlan({0, 100, 50, 2});
  for (uint64_t step = 1; step <= 60; ++step) {
    reporter.Add({step, step > 50 ? 1u : 0u, 0.25, std::nullopt, 64});
  }
  reporter.GoBackTo(20);
  clock_.Advance(absl::Seconds(1));
  reporter.Tick();
  const std::string back = output_.substr(output_.rfind('\r'));
  EXPECT_THAT(back, HasSubstr("epoch 1/2:  40%"));
  EXPECT_THAT(back, Not(HasSubstr("loss=")));
  reporter.Add({21, 0, 0.75, std::nullopt, 64});
  clock_.Advance(absl::Seconds(1));
  reporter.Tick();
  EXPECT_THAT(output_.substr(output_.rfind('\r')), HasSubstr("loss=0.7500"));
}

TEST_F(ProgressTest, RatesCountStepsNotStartUp) {
  ProgressReporter reporter(Options(true), &clock_);
  clock_.Advance(absl::Seconds(100));
  Run(&reporter, 1, 30);
  EXPECT_NEAR(reporter.examples_per_second(), 640, 1);
}

TEST_F(ProgressTest, StepsThatArriveAtOnceMakeNoRate) {
  ProgressReporter reporter(Options(true), &clock_);
  for (uint64_t step = 1; step <= 50; ++step) reporter.Add({step, 0, 0.5, 0.75, 64});
  EXPECT_EQ(reporter.examples_per_second(), 0);
}

TEST(FormatClockTimeTest, HoursOnlyWhenNeeded) {
  EXPECT_EQ(FormatClockTime(absl::Seconds(65)), "01:05");
  EXPECT_EQ(FormatClockTime(absl::Seconds(3723)), "1:02:03");
  EXPECT_EQ(FormatClockTime(-absl::Seconds(3)), "00:00");
}

}  // namespace
}  // namespace shoal
