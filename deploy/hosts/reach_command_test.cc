#include "deploy/hosts/reach_command.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(ReachCommandTest, TheCommandToTryByHandHasTheHostFilesSettings) {
  const std::vector<std::string> plain = {"ssh", "-T", "-x", "-o", "-p", "alpha", "cd '/' && true"};
  EXPECT_EQ(TryByHand(plain, "alpha"), "ssh -o BatchMode=yes alpha true");
  const std::vector<std::string> all = {"ssh", "-T", "-o", "BatchMode=yes", "-F",    "/my config",
                                        "-l",  "me", "-p", "2222",          "alpha", "exec -p 1"};
  EXPECT_EQ(TryByHand(all, "alpha"),
            "ssh -o BatchMode=yes -F '/my config' -l me -p 2222 alpha true");
}

}  // namespace
}  // namespace shoal
