#include "runtime/task/task_help.h"

#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(TaskHelpTest, NamesTheJobsAndTheExitCodes) {
  EXPECT_THAT(TaskHelp(std::nullopt), HasSubstr("chief, ps, worker or evaluator"));
  for (const std::optional<Job>& job :
       {std::optional<Job>(), std::optional<Job>(Job::kPs), std::optional<Job>(Job::kEvaluator)}) {
    for (const char* code :
         {"\n  0  ", "\n  2, 64 ", "\n  65 ", "\n  78 ", "\n  130, 143 ", "\n  138 "}) {
      EXPECT_THAT(TaskHelp(job), HasSubstr(code));
    }
  }
}

}  // namespace
}  // namespace shoal
