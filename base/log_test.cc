#include "base/log.h"

#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// Logs to a file of its own while it lives.
class LogTest : public ::testing::Test {
 protected:
  LogTest()
      : path_(absl::StrCat(::testing::TempDir(), "/",
                           ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~LogTest() override { EXPECT_TRUE(SetUpLog(LogOptions()).ok()); }

  void SetUpWith(LogSeverity min_severity) {
    LogOptions options;
    options.task = "worker/0";
    options.file = path_;
    options.min_severity = min_severity;
    ASSERT_TRUE(SetUpLog(options).ok());
  }

  std::string Contents() const {
    std::stringstream contents;
    contents << std::ifstream(path_).rdbuf();
    return contents.str();
  }

  const std::string path_;
};

TEST_F(LogTest, LineHasSeverityTimeTaskAndPlace) {
  SetUpWith(LogSeverity::kInfo);
  LOG(WARNING) << "pull step=" << 7;
  EXPECT_THAT(Contents(), ContainsRegex("^W [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} worker/0 "
                                        "log_test\\.cc:[0-9]+\\] pull step=7\n$"));
}

TEST_F(LogTest, LineBelowTheMinimumIsNotWrittenOrEvaluated) {
  SetUpWith(LogSeverity::kWarning);
  int evaluated = 0;
  LOG(INFO) << "dropped " << ++evaluated;
  LOG_IF(WARNING, false) << "dropped " << ++evaluated;
  LOG_IF(WARNING, true) << "kept";
  EXPECT_EQ(evaluated, 0);
  EXPECT_THAT(Contents(), HasSubstr("kept"));
  EXPECT_THAT(Contents(), Not(HasSubstr("dropped")));
}

TEST_F(LogTest, MessageStaysOnOneLine) {
  SetUpWith(LogSeverity::kInfo);
  LOG(INFO) << "first\nsecond";
  EXPECT_THAT(Contents(), HasSubstr("first\\nsecond\n"));
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  SetUpWith(LogSeverity::kInfo);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) LOG(INFO) << std::string(200, 'x');
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream contents(Contents());
  int lines = 0;
  for (std::string line; std::getline(contents, line); ++lines) {
    EXPECT_THAT(line, ContainsRegex("^I .*\\] x{200}$"));
  }
  EXPECT_EQ(lines, 400);
}

TEST_F(LogTest, FileThatCannotBeOpenedIsAnErrorThatNamesIt) {
  LogOptions options;
  options.file = "/nonexistent/log";
  EXPECT_THAT(SetUpLog(options).ToString(), HasSubstr("/nonexistent/log"));
}

TEST(CheckDeathTest, FailedCheckPrintsTheConditionAndAborts) {
  const int two = 2;
  EXPECT_DEATH(CHECK(two == 3) << "because", "Check failed: two == 3 because");
  EXPECT_DEATH(CHECK_EQ(two, 3) << "because", "Check failed: two == 3 \\(2 vs. 3\\) because");
  EXPECT_DEATH(CHECK_OK(absl::DataLossError("torn")), "DATA_LOSS: torn");
  EXPECT_DEATH(LOG(FATAL) << "the end", "the end");
}

TEST(CheckTest, PassedCheckEvaluatesOnceAndNeverItsMessage) {
  int evaluated = 0;
  int described = 0;
  CHECK(++evaluated == 1) << ++described;
  CHECK_EQ(++evaluated, 2) << ++described;
  CHECK_NE(evaluated, 1);
  CHECK_LT(evaluated, 3);
  CHECK_LE(evaluated, 2);
  CHECK_GT(evaluated, 1);
  CHECK_GE(evaluated, 2);
  CHECK_OK(absl::StatusOr<int>(5));
  EXPECT_EQ(evaluated, 2);
  EXPECT_EQ(described, 0);
}

TEST(CheckTest, ElseBelongsToTheOuterIf) {
  bool reached = false;
  if (reached)
    CHECK_EQ(1, 1);
  else
    reached = true;
  EXPECT_TRUE(reached);
}

}  // namespace
}  // namespace shoal
