#include "deploy/launch/break_off.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"

namespace shoal {
namespace {

using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BreakOffDeathTest, ARunThatCannotBeSeenNowMayHaveBegun) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::string directory = ::testing::TempDir() + "/broken.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  v1::RunConfig run;
  run.set_out(directory);
  const auto break_off = [&run] {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    BreakOff(SIGINT, run, "shoal train");
  };
  EXPECT_EXIT(break_off(), ExitedWithCode(130), HasSubstr("the run had not begun"));
  EXPECT_EXIT(RunWithFailingCall(SYS_newfstatat, ESTALE, break_off), ExitedWithCode(130),
              Not(HasSubstr("the run had not begun")));
}

}  // namespace
}  // namespace shoal
