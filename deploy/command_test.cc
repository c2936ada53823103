#include "deploy/command.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CommandTest, PassesOnWhatFollowsTheName) {
  std::vector<std::string> got;
  const std::vector<Command> commands = {
      {"ps", "one ps", [](absl::Span<const std::string>) { return 1; }},
      {"train", "all", [&got](absl::Span<const std::string> args) {
         got.assign(args.begin(), args.end());
         return 7;
       }}};
  EXPECT_EQ(RunCommand(commands, {"train", "--seed=1", "x"}), 7);
  EXPECT_THAT(got, ElementsAre("--seed=1", "x"));
  EXPECT_EQ(RunCommand(commands, {}), 2);
  EXPECT_EQ(RunCommand(commands, {"--help"}), 0);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(RunCommand(commands, {"trian"}), 2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("shoal: \"trian\" is not a command; did you mean train?\n"));
  EXPECT_EQ(RunCommand(commands, {"help", "train"}), 7);
  EXPECT_THAT(got, ElementsAre("--help"));
  EXPECT_THAT(CommandHelp(commands), HasSubstr("  train      all\n"));
  EXPECT_THAT(CommandHelp(commands), HasSubstr("  shoal --version  "));
}

}  // namespace
}  // namespace shoal
