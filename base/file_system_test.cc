// Tests the same properties for the disk and for the file system in memory.
#include "base/file_system.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/faulty_file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

enum class Kind { kPosix, kFaulty };

class FileSystemTest : public ::testing::TestWithParam<Kind> {
 protected:
  FileSystemTest() {
    if (GetParam() == Kind::kFaulty) {
      disk_ = std::make_unique<FaultyFileSystem>();
      root_ = "root";
    } else {
      disk_ = NewPosixFileSystem();
      std::string directory = absl::StrCat(::testing::TempDir(), "/file_system_XXXXXX");
      root_ = mkdtemp(&directory[0]);
    }
  }

  void SetUp() override { ASSERT_OK(disk_->MakeDirectory(root_)); }
  void TearDown() override { ASSERT_OK(RemoveTree(*disk_, root_)); }

  std::string Path(absl::string_view name) const { return JoinPath(root_, name); }

  void Write(absl::string_view name, absl::string_view contents) {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->Create(Path(name)));
    ASSERT_OK(file->Append(contents));
    ASSERT_OK(file->Close());
  }

  std::unique_ptr<FileSystem> disk_;
  std::string root_;
};

TEST_P(FileSystemTest, WrittenBytesAreRead) {
  Write("a", "one");
  EXPECT_THAT(ReadFile(*disk_, Path("a")), IsOkAndHolds("one"));
  Write("a", "2");
  EXPECT_THAT(ReadFile(*disk_, Path("a")), IsOkAndHolds("2"));
}

TEST_P(FileSystemTest, AppendContinuesAtTheEnd) {
  for (const char* piece : {"one ", "two"}) {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->OpenForAppend(Path("a")));
    ASSERT_OK(file->Append(piece));
    ASSERT_OK(file->Sync());
  }
  EXPECT_THAT(ReadFile(*disk_, Path("a")), IsOkAndHolds("one two"));
  ASSERT_OK(disk_->Truncate(Path("a"), 3));
  EXPECT_THAT(ReadFile(*disk_, Path("a")), IsOkAndHolds("one"));
}

TEST_P(FileSystemTest, AnUpdateChangesOnlyWhatItWrites) {
  const auto path = Path("updated");
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, std::string>>{
           {4, "late"}, {0, "soon"}, {6, "+"}, {10, "end"}}) {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_->OpenForUpdate(path));
    ASSERT_OK(file->WriteAt(offset, bytes));
    ASSERT_OK(file->Sync());
    ASSERT_OK(file->Close());
  }
  EXPECT_EQ(ReadFile(*disk_, path).value(), std::string("soonla+e\0\0end", 13));
}

TEST_P(FileSystemTest, ReadEndsAtTheEndOfTheFile) {
  Write("a", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, disk_->OpenForRead(Path("a")));
  EXPECT_THAT(file->Size(), IsOkAndHolds(10u));
  char bytes[4] = {};
  EXPECT_THAT(file->Read(8, absl::MakeSpan(bytes)), IsOkAndHolds(2u));
  EXPECT_EQ(std::string(bytes, 2), "89");
  EXPECT_THAT(file->Read(99, absl::MakeSpan(bytes)), IsOkAndHolds(0u));
}

TEST_P(FileSystemTest, AbsentFileIsNotFoundAndNamed) {
  const absl::Status status = ReadFile(*disk_, Path("absent")).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("absent")));
  EXPECT_THAT(disk_->Remove(Path("absent")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(disk_->Create(Path("no/such/directory")), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(FileExists(*disk_, Path("absent")));
}

TEST_P(FileSystemTest, FileLongerThanAllowedIsRefused) {
  Write("a", "12345");
  EXPECT_THAT(ReadFile(*disk_, Path("a"), 4), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_P(FileSystemTest, RenameReplacesAndLinkDoesNot) {
  Write("a", "new");
  Write("b", "old");
  EXPECT_THAT(disk_->LinkNoOverwrite(Path("a"), Path("b")),
              StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_OK(disk_->LinkNoOverwrite(Path("a"), Path("c")));
  ASSERT_OK(disk_->Rename(Path("a"), Path("b")));
  EXPECT_THAT(ReadFile(*disk_, Path("b")), IsOkAndHolds("new"));
  EXPECT_THAT(disk_->List(root_), IsOkAndHolds(ElementsAre("b", "c")));
}

TEST_P(FileSystemTest, DirectoriesAreMadeWithTheirParentsAndMayExist) {
  ASSERT_OK(disk_->MakeDirectory(Path("x/y/z")));
  ASSERT_OK(disk_->MakeDirectory(Path("x/y/z")));
  Write("x/y/f", "1");
  EXPECT_THAT(disk_->List(Path("x/y")), IsOkAndHolds(ElementsAre("f", "z")));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_->GetInfo(Path("x/y")));
  EXPECT_TRUE(info.is_directory);
  EXPECT_THAT(disk_->MakeDirectory(Path("x/y/f")), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_FALSE(disk_->Remove(Path("x")).ok());
  ASSERT_OK(RemoveTree(*disk_, Path("x")));
  ASSERT_OK(RemoveTree(*disk_, Path("x")));
  EXPECT_THAT(disk_->List(root_), IsOkAndHolds(ElementsAre()));
}

TEST_P(FileSystemTest, AtomicWriteReplacesAndLeavesNoTemporary) {
  ASSERT_OK(WriteAtomically(*disk_, Path("a"), "one"));
  ASSERT_OK(WriteAtomically(*disk_, Path("a"), "two"));
  EXPECT_THAT(ReadFile(*disk_, Path("a")), IsOkAndHolds("two"));
  EXPECT_THAT(disk_->List(root_), IsOkAndHolds(ElementsAre("a")));
}

TEST_P(FileSystemTest, SpaceLeftIsKnown) {
  ASSERT_OK_AND_ASSIGN(const uint64_t space, disk_->SpaceLeft(root_));
  EXPECT_GT(space, 0u);
  EXPECT_THAT(disk_->SpaceLeft(Path("absent")), StatusIs(absl::StatusCode::kNotFound));
}

INSTANTIATE_TEST_SUITE_P(Disks, FileSystemTest, ::testing::Values(Kind::kPosix, Kind::kFaulty));

// A file server or a FUSE daemon that is away.
TEST(PosixFileSystemTest, AnErrorThatMayPassIsUnavailable) {
  const std::unique_ptr<FileSystem> disk = NewPosixFileSystem();
  const std::string path = absl::StrCat(::testing::TempDir(), "/passing");
  ASSERT_OK(WriteAtomically(*disk, path, "text"));
  for (const int error : {EIO, ESTALE, ENOTCONN, ESHUTDOWN, ENODEV, ENXIO, ETIMEDOUT, EMFILE}) {
    RunWithFailingCall(SYS_openat, error, [&] {
      EXPECT_THAT(ReadFile(*disk, path), StatusIs(absl::StatusCode::kUnavailable)) << error;
      EXPECT_THAT(disk->List(ParentDirectory(path)), StatusIs(absl::StatusCode::kUnavailable));
    });
    RunWithFailingCall(SYS_pread64, error, [&] {
      EXPECT_THAT(ReadFile(*disk, path),
                  StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot read")));
    });
    RunWithFailingCall(SYS_fsync, error, [&] {
      EXPECT_THAT(WriteAtomically(*disk, path, "new"), StatusIs(absl::StatusCode::kUnavailable));
    });
  }
  EXPECT_THAT(ReadFile(*disk, path), IsOkAndHolds("text"));
}

TEST(PathTest, JoinAndParentAreInverse) {
  EXPECT_EQ(JoinPath("a/b", "c"), "a/b/c");
  EXPECT_EQ(JoinPath("a/", "c"), "a/c");
  EXPECT_EQ(JoinPath("", "c"), "c");
  EXPECT_EQ(JoinPath("a", "/c"), "/c");
  EXPECT_EQ(ParentDirectory("a/b/c"), "a/b");
  EXPECT_EQ(ParentDirectory("a/b/"), "a");
  EXPECT_EQ(ParentDirectory("c"), ".");
  EXPECT_EQ(ParentDirectory("/c"), "/");
}

}  // namespace
}  // namespace shoal
