#include "runtime/process/exit_code.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(ExitCodeHelpTest, EveryCodeHasALine) {
  for (const ExitCode code :
       {kExitDone, kExitInternalError, kExitUsage, kExitBadFlags, kExitBadData, kExitBadConfig,
        kExitInterrupted, kExitRestartMe, kExitTerminated}) {
    bool is_named = false;
    for (const absl::string_view line : absl::StrSplit(ExitCodeHelp(), '\n')) {
      const std::vector<std::string> words =
          absl::StrSplit(line.substr(0, 12), absl::ByAnyChar(" ,"), absl::SkipEmpty());
      for (const std::string& word : words) is_named |= word == absl::StrCat(code);
    }
    EXPECT_TRUE(is_named) << code;
  }
}

TEST(ExitCodeHelpTest, LackOfMemoryStandsAtTheCodesThatItGets) {
  const std::string help(ExitCodeHelp());
  const auto part = [&help](const std::string& code, const std::string& next) {
    const size_t begin = help.find("\n  " + code);
    return help.substr(begin, help.find("\n  " + next) - begin);
  };
  // A GPU that is full, and a ps whose limit is too low (ps/memory_check.cc) or whose machine is
  // full now, which the chief gives up as UNAVAILABLE.
  ASSERT_EQ(ToExitCode(absl::ResourceExhaustedError("")), 1);
  EXPECT_THAT(part("1 ", "2, 64"), HasSubstr("GPU"));
  ASSERT_EQ(ToExitCode(absl::FailedPreconditionError("")), 78);
  EXPECT_THAT(part("78", "130"), HasSubstr("more memory than a ps may use"));
  EXPECT_THAT(part("78", "130"), HasSubstr("diverges"));
  ASSERT_EQ(ToExitCode(absl::UnavailableError("")), 138);
  EXPECT_THAT(part("138", "128+N"), HasSubstr("free memory"));
}

TEST(ExitCodeHelpTest, LinesFitIn100Columns) {
  for (const absl::string_view line : absl::StrSplit(ExitCodeHelp(), '\n')) {
    EXPECT_LE(line.size(), 100u) << line;
  }
}

}  // namespace
}  // namespace shoal
