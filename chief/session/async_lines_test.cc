#include "chief/session/async_lines.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/session_records_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

TEST(AsyncLines, TheNewestLineWaitsForAnEvaluation) {
  AsyncLines lines;
  ASSERT_TRUE(lines.Add(7, Report(1)).ok());
  ASSERT_TRUE(lines.Add(7, Report(2)).ok());
  ASSERT_TRUE(lines.Add(7, Report(2)).ok());
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<0", "1"));
  lines.SetEvaluation(2, EvaluationSums());
  ASSERT_TRUE(lines.Add(7, Report(3)).ok());
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("2e"));
  lines.Flush();
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("3"));
}

TEST(AsyncLines, AnEvaluationWaitsForTheLineOfItsUpdates) {
  AsyncLines lines;
  ASSERT_TRUE(lines.Add(7, Report(1)).ok());
  lines.SetEvaluation(2, EvaluationSums());
  ASSERT_TRUE(lines.Add(7, Report(2)).ok());
  lines.Flush();
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<0", "1", "2e"));
}

TEST(AsyncLines, LinesThatARestoredPsCountsAgainAreVoid) {
  AsyncLines lines;
  for (uint64_t step = 1; step <= 5; ++step) ASSERT_TRUE(lines.Add(7, Report(step)).ok());
  lines.Take();
  ASSERT_TRUE(lines.Add(9, Report(3)).ok());
  ASSERT_TRUE(lines.Add(7, Report(6)).ok());  // late, of the former life
  ASSERT_TRUE(lines.Add(9, Report(4)).ok());
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<2", "3"));
  EXPECT_EQ(lines.newest(), 4u);
}

TEST(AsyncLines, AnEvaluationInAVoidLineGoesIntoTheNewOne) {
  AsyncLines lines;
  for (uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(lines.Add(7, Report(step)).ok());
  lines.SetEvaluation(3, EvaluationSums());
  lines.Take();
  for (uint64_t step = 2; step <= 4; ++step) ASSERT_TRUE(lines.Add(9, Report(step)).ok());
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<1", "2", "3e"));
}

TEST(AsyncLines, ARestartedPsCountsOnWhereItsCheckpointEnds) {
  AsyncLines lines;
  for (uint64_t step = 1; step <= 4; ++step) ASSERT_TRUE(lines.Add(7, Report(step)).ok());
  lines.Take();
  lines.Restart(9, 2);
  EXPECT_EQ(lines.newest(), 2u);
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<2"));
  ASSERT_TRUE(lines.Add(9, Report(3)).ok());
  EXPECT_EQ(lines.released(), 2u);
  lines.Release(4);
  EXPECT_EQ(lines.released(), 2u);
  lines.Release(3);
  EXPECT_EQ(lines.released(), 3u);
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<2", "3"));
}

TEST(AsyncLines, ReportsThatOvertakeTheAnswerToTheLoadCount) {
  AsyncLines lines;
  for (uint64_t step = 1; step <= 6; ++step) ASSERT_TRUE(lines.Add(7, Report(step)).ok());
  lines.Take();
  for (uint64_t step = 3; step <= 4; ++step) ASSERT_TRUE(lines.Add(9, Report(step)).ok());
  lines.Restart(9, 3);  // It had counted one more when it answered.
  ASSERT_TRUE(lines.Add(9, Report(5)).ok());
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<2", "3", "4"));
  // The other way round: what the answer counted is still to be reported.
  lines.Restart(11, 4);
  for (uint64_t step = 3; step <= 5; ++step) ASSERT_TRUE(lines.Add(11, Report(step)).ok());
  EXPECT_THAT(ToText(lines.Take()), ElementsAre("<4", "<2", "3", "4"));
}

TEST(AsyncLines, AMissingReportIsAnError) {
  AsyncLines lines;
  ASSERT_TRUE(lines.Add(7, Report(1)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(lines.Add(7, Report(3))));
}

TEST(AsyncLines, ThereIsNoStepZero) {
  AsyncLines lines;
  EXPECT_TRUE(absl::IsInvalidArgument(lines.Add(7, Report(0))));
  EXPECT_EQ(lines.newest(), 0u);
}

}  // namespace
}  // namespace shoal
