#include "deploy/control_command.h"

#include <errno.h>
#include <sys/syscall.h>

#include <memory>

#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

TEST(ControlCommandTest, ADirectoryThatCannotBeSeenNowIsNotMissing) {
  const std::string directory = JoinPath(::testing::TempDir(), "seen");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_OK(files->MakeDirectory(directory));
  ASSERT_OK(WriteAtomically(*files, JoinPath(directory, "cluster.textproto"),
                            "job { name: 'chief' tasks { address: '127.0.0.1:2222' } }"));
  EXPECT_THAT(FindChief(directory), IsOkAndHolds("127.0.0.1:2222"));
  RunWithFailingCall(SYS_newfstatat, ESTALE, [&directory] {
    EXPECT_THAT(FindChief(directory), StatusIs(absl::StatusCode::kUnavailable));
  });
  EXPECT_THAT(FindChief(JoinPath(directory, "none")), StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace shoal
