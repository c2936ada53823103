#include "worker/evaluator/run_watch.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

const absl::Time kBegin = absl::FromUnixSeconds(1000);

class RunWatchTest : public ::testing::Test {
 protected:
  // The line after `seconds`; the error's text if the wait is over.
  std::string After(int seconds, const std::string& sign, const std::string& what = "a run") {
    const absl::StatusOr<std::string> line =
        watch_.Wait(kBegin + absl::Seconds(seconds), what, sign);
    if (line.ok()) return *line;
    EXPECT_TRUE(absl::IsUnavailable(line.status())) << line.status();
    return absl::StrCat("over: ", line.status().message());
  }

  bool is_held_ = false;
  RunWatch watch_{kBegin, absl::Seconds(100), [this] { return is_held_; }};
};

TEST_F(RunWatchTest, LogsWhatItWaitsForAtOnceAndThenLessAndLessOften) {
  EXPECT_EQ(After(0, ""),
            "waits for a run; ends when there is no sign of the run for 1m40s "
            "(cluster.wait_seconds)");
  std::string times;
  for (int s = 1; s <= 600; ++s) {
    // The run trains: each second has a sign.
    if (!After(s, absl::StrCat(s)).empty()) absl::StrAppend(&times, s, " ");
  }
  EXPECT_EQ(times, "30 60 120 240 480 ");
  EXPECT_THAT(After(1000, "more"),
              HasSubstr("has waited 16m40s for a run; the last sign of the run was 0"));
}

TEST_F(RunWatchTest, ANewWaitIsLoggedAtOnce) {
  After(0, "");
  EXPECT_EQ(After(1, ""), "");
  EXPECT_THAT(After(2, "", "a checkpoint"), HasSubstr("waits for a checkpoint; "));
  EXPECT_EQ(After(3, "", "a checkpoint"), "");
}

TEST_F(RunWatchTest, EndsWhenThereIsNoSignOfTheRun) {
  After(0, "");
  After(90, "a");
  EXPECT_EQ(After(189, "a").rfind("over", 0), std::string::npos);
  EXPECT_EQ(
      After(190, "a"),
      "over: waited for a run; there was no sign of the run for 1m40s: start the run, correct "
      "--out, or raise cluster.wait_seconds");
}

TEST_F(RunWatchTest, ARunThatAProcessHoldsIsWaitedFor) {
  is_held_ = true;
  After(0, "");
  EXPECT_EQ(After(100, "").rfind("over", 0), std::string::npos);
  is_held_ = false;
  EXPECT_EQ(After(199, "").rfind("over", 0), std::string::npos);
  EXPECT_EQ(After(200, "").rfind("over", 0), 0u);
}

TEST(SignOfRunTest, ChangesWithWhatTheRunDoes) {
  const std::string directory = ::testing::TempDir() + "/sign_of_run";
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_OK(RemoveTree(*files, directory));
  std::string before = SignOfRun(files.get(), directory);
  EXPECT_EQ(before, "");
  ASSERT_OK(files->MakeDirectory(directory));
  EXPECT_EQ(SignOfRun(files.get(), directory), "");
  const auto changes = [&](const char* name, const char* text) {
    EXPECT_OK(WriteAtomically(*files, JoinPath(directory, name), text));
    const std::string sign = SignOfRun(files.get(), directory);
    const bool changed = sign != before;
    before = sign;
    return changed;
  };
  EXPECT_TRUE(changes("TERM", "1"));
  EXPECT_FALSE(changes("TERM", "1"));
  EXPECT_TRUE(changes("TERM", "2"));
  EXPECT_TRUE(changes("cluster.textproto", "chief: \"a:1\""));
  EXPECT_TRUE(changes("metrics.jsonl", "{\"step\": 1}\n"));
  EXPECT_TRUE(changes("summary.json", "{}"));
  ASSERT_OK(files->MakeDirectory(JoinPath(directory, "checkpoints")));
  EXPECT_TRUE(changes("checkpoints/ckpt-1-1-0000000000000001", ""));
}

}  // namespace
}  // namespace shoal
