#include "deploy/hosts/attend_command.h"

#include <errno.h>
#include <sys/syscall.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AttendCommandTest : public ::testing::Test {
 protected:
  AttendCommandTest() {
    EXPECT_TRUE(WriteAtomically(*NewPosixFileSystem(), launch_file_, "this launch").ok());
  }

  // Attends a task of the launch and returns the lines for the launcher.
  std::string Attend(const std::string& launch, const std::string& program) {
    ::testing::internal::CaptureStdout();
    AttendMain({"--name=worker/0", absl::StrCat("--launch_file=", launch_file_),
                absl::StrCat("--launch=", launch), "--", program});
    return ::testing::internal::GetCapturedStdout();
  }

  const std::string launch_file_ = ::testing::TempDir() + "/LAUNCH";
};

TEST_F(AttendCommandTest, AHostThatDoesNotFitRefuses) {
  EXPECT_THAT(Attend("another launch", "/bin/true"), HasSubstr("shoal-attend refused "));
  EXPECT_THAT(Attend("this launch", "/no/program"), HasSubstr("shoal-attend refused "));
}

TEST_F(AttendCommandTest, AFileSystemThatFailsForAWhileDoesNotRefuseTheTask) {
  for (const int error : {EIO, ESTALE, ENOTCONN}) {
    std::string lines;
    RunWithFailingCall(SYS_pread64, error, [&] { lines = Attend("this launch", "/bin/true"); });
    EXPECT_THAT(lines, AllOf(HasSubstr("shoal-attend exit 138\n"), Not(HasSubstr("refused"))));
    RunWithFailingCall(SYS_access, error, [&] { lines = Attend("this launch", "/bin/true"); });
    EXPECT_THAT(lines, AllOf(HasSubstr("shoal-attend exit 138\n"), Not(HasSubstr("refused"))));
  }
}

}  // namespace
}  // namespace shoal
