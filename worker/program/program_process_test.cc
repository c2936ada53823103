#include "worker/program/program_process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/failing_call.h"
#include "base/status_matchers.h"
#include "base/unique_fd.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class ProgramProcessTest : public ::testing::Test {
 protected:
  ProgramProcessTest() {
    std::string pattern = ::testing::TempDir() + "/program.XXXXXX";
    directory_ = mkdtemp(pattern.data());
  }

  absl::Status Start(const std::vector<std::string>& args) {
    ProgramProcess::Options options;
    options.args = args;
    options.remedy = "; name another one";
    options.parameters_fd = memory_.get();
    options.contributions_fd = memory_.get();
    options.clock = &clock_;
    return ProgramProcess::Start(options).status();
  }

  const RealClock clock_;
  const UniqueFd memory_{open("/dev/null", O_RDWR | O_CLOEXEC)};
  std::string directory_;
};

TEST_F(ProgramProcessTest, AnErrorThatAnotherStartDoesNotMendIsPermanent) {
  const std::string loop = directory_ + "/loop";
  ASSERT_EQ(symlink(loop.c_str(), loop.c_str()), 0);
  for (const std::string& program :
       {std::string("/dev/null/train"), loop, directory_ + "/" + std::string(300, 'x')}) {
    EXPECT_THAT(Start({program}),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("; name another one")));
  }
  EXPECT_THAT(Start({"/bin/true", std::string(1 << 20, 'x')}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shorten program.args")));
  EXPECT_THAT(Start({"/nowhere/train"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("; name another one")));
  EXPECT_THAT(Start({"/etc/passwd"}),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("; name another one")));
}

TEST_F(ProgramProcessTest, AMissingShellForItsGuardIsPermanent) {
  const std::pair<int, absl::StatusCode> codes[] = {
      {ENOENT, absl::StatusCode::kNotFound},
      {EACCES, absl::StatusCode::kPermissionDenied},
      {ENOEXEC, absl::StatusCode::kPermissionDenied},
      {ELOOP, absl::StatusCode::kFailedPrecondition},
  };
  for (const auto& [error, code] : codes) {
    RunWithFailingCall(SYS_execve, error, [this, code = code] {
      EXPECT_THAT(Start({"/bin/true"}),
                  StatusIs(code, HasSubstr("its guard /bin/sh cannot be started: ")));
    });
  }
  RunWithFailingCall(SYS_execve, EIO, [this] {
    EXPECT_THAT(Start({"/bin/true"}), StatusIs(absl::StatusCode::kUnavailable));
  });
}

TEST_F(ProgramProcessTest, AProgramThatIsBeingWrittenIsNotThereNow) {
  const std::string path = directory_ + "/train";
  std::ofstream(path) << "#!/bin/sh\n";
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  UniqueFd writer(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  EXPECT_THAT(Start({path}), StatusIs(absl::StatusCode::kUnavailable));
  writer.Reset();
  EXPECT_OK(Start({path}));
}

TEST_F(ProgramProcessTest, TooManyOpenFilesAreTemporary) {
  RunWithFailingCall(SYS_fcntl, EMFILE, [this] {
    EXPECT_THAT(Start({"/bin/true"}),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("program: /bin/true cannot be started: fcntl: ")));
  });
  RunWithFailingCall(SYS_pipe2, ENFILE, [this] {
    EXPECT_THAT(Start({"/bin/true"}), StatusIs(absl::StatusCode::kUnavailable));
  });
}

}  // namespace
}  // namespace shoal
