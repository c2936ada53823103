#include "deploy/launch/task_logs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace shoal {
namespace {

class TaskLogsTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(out_ + "/logs"); }
  void Write(TaskId task, const std::string& text) { std::ofstream(logs_.Path(task)) << text; }

  const std::string out_ = ::testing::TempDir() + "/task_logs";
  const TaskLogs logs_{out_};
  const TaskId ps_{Job::kPs, 1};
};

TEST_F(TaskLogsTest, EachTaskAndEachProgramHasAFile) {
  EXPECT_EQ(logs_.Path(ps_), out_ + "/logs/ps-1.log");
  EXPECT_EQ(logs_.ProgramPath({Job::kWorker, 2}), out_ + "/logs/program-2.log");
}

TEST_F(TaskLogsTest, TheLastWordsAreThoseOfTheLastChild) {
  const std::string first = "shoal ps: the disk is full\n";
  Write(ps_, first + "starting\nshoal ps: the port is in use\nI am going\n");
  EXPECT_EQ(logs_.LastWords(ps_, 0), "the port is in use");
  Write(ps_, first + "starting\nshoal worker: of another task\n");
  EXPECT_EQ(logs_.LastWords(ps_, first.size()), "");
  EXPECT_EQ(logs_.LastWords({Job::kPs, 7}, 0), "") << "there is no such log";
}

TEST_F(TaskLogsTest, TheEndHasTheLastLines) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += std::to_string(i) + "\n";
  Write(ps_, text);
  EXPECT_EQ(logs_.End(ps_), "12\n13\n14\n15\n16\n17\n18\n19");
  Write(ps_, "");
  EXPECT_EQ(logs_.End(ps_), "");
}

}  // namespace
}  // namespace shoal
