#include "runtime/task/task_main.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shoal {
namespace {

TEST(TaskMainTest, BadFlagsEndWithTheirExitCodeAndDoNotRun) {
  bool ran = false;
  const RunTask run = [&ran](const TaskOptions&) {
    ran = true;
    return absl::OkStatus();
  };
  EXPECT_EQ(TaskMain(Job::kPs, {"--nonsense"}, run), 64);
  EXPECT_EQ(TaskMain(Job::kPs, {"--run=/nowhere"}, run), 78);
  EXPECT_EQ(TaskMain(Job::kPs, {"--help"}, run), 0);
  EXPECT_FALSE(ran);
}

TEST(TaskMainTest, RunsTheRoleAndReturnsItsExitCode) {
  const std::vector<std::string> args = {"--model=mlp", "--num_epochs=1", "--out=/tmp/x",
                                         "--listen_address=127.0.0.1:0",
                                         "--log_file=" + ::testing::TempDir() + "/task_main.log"};
  int runs = 0;
  const auto role = [&runs](const absl::Status& result) {
    return [&runs, result](const TaskOptions& options) {
      EXPECT_NE(options.clock, nullptr);
      EXPECT_NE(options.file_system, nullptr);
      EXPECT_FALSE(options.shutdown == nullptr);
      ++runs;
      return result;
    };
  };
  EXPECT_EQ(TaskMain(Job::kChief, args, role(absl::OkStatus())), 0);
  EXPECT_EQ(TaskMain(Job::kChief, args, role(absl::DataLossError("x"))), 65);
  EXPECT_EQ(runs, 2);
}

}  // namespace
}  // namespace shoal
