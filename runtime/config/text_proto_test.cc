#include "runtime/config/text_proto.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class ReadTextFileTest : public ::testing::Test {
 protected:
  ReadTextFileTest() { EXPECT_OK(WriteAtomically(*files_, path_, "batch_size: 3")); }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string path_ = ::testing::TempDir() + "/run.textproto";
};

TEST_F(ReadTextFileTest, AnErrorThatMayPassIsUnavailable) {
  for (const int error : {EIO, ESTALE, ENOTCONN, ETIMEDOUT, EMFILE, ENFILE, ENOMEM}) {
    for (const long call : {SYS_openat, SYS_read}) {
      RunWithFailingCall(call, error, [&] {
        EXPECT_THAT(ReadTextFile("--run", path_),
                    StatusIs(absl::StatusCode::kUnavailable,
                             HasSubstr("--run: cannot read " + path_ + ": ")))
            << error;
      });
    }
  }
  EXPECT_THAT(ReadTextFile("--run", path_), IsOkAndHolds("batch_size: 3"));
}

TEST_F(ReadTextFileTest, AnErrorThatStaysIsNot) {
  EXPECT_THAT(ReadTextFile("--run", path_ + ".none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ReadTextFile("--run", ::testing::TempDir()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Is a directory")));
  ASSERT_OK(WriteAtomically(*files_, path_, std::string((16 << 20) + 1, 'x')));
  EXPECT_THAT(ReadTextFile("--run", path_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("larger than 16 MiB")));
}

// On NFS a client that has opened a file cannot read it any more once another has got its name.
TEST_F(ReadTextFileTest, AFileThatIsReplacedWhileItIsReadIsOpenedAgain) {
  static int num_opened = 0;
  const FileOpener open = [](const char* path, const char* mode) -> std::FILE* {
    if (++num_opened > 1) return std::fopen(path, mode);
    cookie_io_functions_t stale = {};
    stale.read = [](void*, char*, size_t) -> ssize_t {
      errno = ESTALE;
      return -1;
    };
    return fopencookie(nullptr, "r", stale);
  };
  EXPECT_THAT(ReadTextFile("--run", path_, open), IsOkAndHolds("batch_size: 3"));
  EXPECT_EQ(num_opened, 2);
}

}  // namespace
}  // namespace shoal
