#include "base/find_file.h"

#include <errno.h>
#include <sys/syscall.h>

#include "gtest/gtest.h"

#include "base/failing_call.h"

namespace shoal {
namespace {

TEST(FindFileTest, AnAbsentFileIsNotAnError) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const std::string directory = ::testing::TempDir();
  const auto absent = FindFile(*files, JoinPath(directory, "absent"));
  ASSERT_TRUE(absent.ok()) << absent.status();
  EXPECT_FALSE(absent->has_value());
  EXPECT_FALSE(IsDirectory(*files, JoinPath(directory, "absent")).value());

  const std::string path = JoinPath(directory, "present");
  ASSERT_TRUE(WriteAtomically(*files, path, "abc").ok());
  EXPECT_EQ(FindFile(*files, path).value()->size, 3u);
  EXPECT_FALSE(IsDirectory(*files, path).value());
  EXPECT_TRUE(IsDirectory(*files, directory).value());
}

TEST(FindFileTest, AFileThatCannotBeSeenNowIsNotAbsent) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const std::string directory = ::testing::TempDir();
  RunWithFailingCall(SYS_newfstatat, ESTALE, [&] {
    EXPECT_TRUE(absl::IsUnavailable(FindFile(*files, directory).status()));
    EXPECT_TRUE(absl::IsUnavailable(IsDirectory(*files, directory).status()));
  });
  RunWithFailingCall(SYS_newfstatat, EACCES,
                     [&] { EXPECT_FALSE(FindFile(*files, directory).value().has_value()); });
}

}  // namespace
}  // namespace shoal
