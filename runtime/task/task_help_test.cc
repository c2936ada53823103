#include "runtime/task/task_help.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(TaskHelpTest, NamesTheJobsAndTheExitCodes) {
  EXPECT_THAT(TaskHelp(std::nullopt), HasSubstr("chief, ps, worker or evaluator"));
  for (const std::optional<Job>& job :
       {std::optional<Job>(), std::optional<Job>(Job::kPs), std::optional<Job>(Job::kEvaluator)}) {
    EXPECT_THAT(TaskHelp(job), HasSubstr(std::string(ExitCodeHelp())));
  }
}

}  // namespace
}  // namespace shoal
