#include "deploy/launch/program_failures.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr char kBoom[] = "train.py:12: ValueError: boom";

TEST(ProgramFailuresTest, TheCauseIsInTheLastWordsOfTheWorker) {
  EXPECT_FALSE(ProgramFailureIn("the run failed; see /out/logs/chief-0.log").has_value());
  const auto raised =
      ProgramFailureIn("program: train.py:12: ValueError: boom; see /out/logs/program-0.log");
  ASSERT_TRUE(raised.has_value());
  EXPECT_EQ(raised->cause, kBoom);
  EXPECT_TRUE(raised->names_a_line);
  const auto without_log = ProgramFailureIn("program: train.py:12: ValueError: boom");
  ASSERT_TRUE(without_log.has_value());
  EXPECT_EQ(without_log->cause, kBoom);
}

TEST(ProgramFailuresTest, ACrashNamesNoLine) {
  for (const char* words :
       {"program: train.py ended before the run was over (killed by SIGSEGV): File 7: in f; see /l",
        "program: train.py", "program: :3: x", "program: train.py:: x", "program: a:b3: x"}) {
    const auto failure = ProgramFailureIn(words);
    ASSERT_TRUE(failure.has_value()) << words;
    EXPECT_FALSE(failure->names_a_line) << words;
  }
}

TEST(ProgramFailuresTest, OneWorkerThatFailsTwiceWithoutAStepHasABug) {
  ProgramFailures failures;
  EXPECT_TRUE(failures.Add(0, kBoom, 7));
  EXPECT_FALSE(failures.IsBug(1));
  EXPECT_FALSE(failures.Add(0, kBoom, 7));
  EXPECT_TRUE(failures.IsBug(1));
}

TEST(ProgramFailuresTest, ABugFailsOnEveryWorker) {
  ProgramFailures failures;
  failures.Add(0, kBoom, 0);
  failures.Add(0, kBoom, 0);
  failures.Add(0, kBoom, 0);
  EXPECT_FALSE(failures.IsBug(2));  // The machine of worker 0 may be bad.
  failures.Add(1, kBoom, 0);
  EXPECT_TRUE(failures.IsBug(2));
}

TEST(ProgramFailuresTest, AllWorkersAtOnceMayBeAFault) {
  ProgramFailures failures;
  failures.Add(0, kBoom, 0);
  failures.Add(1, kBoom, 0);
  EXPECT_FALSE(failures.IsBug(2));
}

TEST(ProgramFailuresTest, AStepOrAnotherCauseInBetweenIsProgress) {
  ProgramFailures failures;
  failures.Add(0, kBoom, 3);
  EXPECT_FALSE(failures.Add(0, kBoom, 4));
  EXPECT_FALSE(failures.IsBug(1));
  EXPECT_TRUE(failures.Add(0, "train.py:13: OSError: away", 4));
  EXPECT_FALSE(failures.IsBug(1));
  EXPECT_TRUE(failures.Add(0, kBoom, 4));
  EXPECT_FALSE(failures.IsBug(1));
}

}  // namespace
}  // namespace shoal
