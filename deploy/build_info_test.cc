#include "deploy/build_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace shoal {
namespace {

using ::testing::MatchesRegex;

TEST(BuildInfoTest, NamesAStampedCommit) {
  const std::string commit(40, 'a');
  EXPECT_EQ(DescribeCommit(commit), "commit " + commit);
  EXPECT_EQ(DescribeCommit(commit + "-modified"), "commit " + commit + "-modified");
}

TEST(BuildInfoTest, ABuildWithoutAStampHasNoCommit) {
  for (const char* text :
       {"", "redacted", "0", "an odd text that has more than forty characters"}) {
    EXPECT_EQ(DescribeCommit(text), "") << text;
  }
}

TEST(BuildInfoTest, NamesTheCompilerTheLibrariesAndTheProtocols) {
  const std::string text = DescribeBuild();
  EXPECT_THAT(text.substr(0, text.find('\n')),
              MatchesRegex("built with .*; its commit was not recorded"));
  EXPECT_THAT(
      text.substr(text.find('\n') + 1),
      MatchesRegex("libraries: oneDNN [0-9.]+, gRPC [0-9.]+, Protobuf [0-9.]+, glibc [0-9.]+\n"
                   "protocols: tasks [0-9]+, compute programs [0-9]+"));
}

}  // namespace
}  // namespace shoal
