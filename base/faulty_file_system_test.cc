#include "base/faulty_file_system.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;

std::unique_ptr<WritableFile> MustCreate(FileSystem& disk, const std::string& path) {
  return *disk.Create(path);
}

TEST(FaultyFileSystemTest, CrashDropsBytesThatWereNotSynced) {
  FaultyFileSystem disk;
  const auto file = MustCreate(disk, "a");
  ASSERT_OK(file->Append("safe"));
  ASSERT_OK(file->Sync());
  ASSERT_OK(file->Append(" lost"));
  ASSERT_OK(disk.SyncDirectory("."));
  disk.Crash();
  EXPECT_THAT(ReadFile(disk, "a"), IsOkAndHolds("safe"));
  EXPECT_THAT(file->Append("more"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(FaultyFileSystemTest, CrashDropsNamesThatWereNotSynced) {
  FaultyFileSystem disk;
  ASSERT_OK(MustCreate(disk, "kept")->Sync());
  ASSERT_OK(disk.SyncDirectory("."));
  ASSERT_OK(MustCreate(disk, "lost")->Sync());
  ASSERT_OK(disk.Remove("kept"));
  disk.Crash();
  EXPECT_THAT(disk.List("."), IsOkAndHolds(ElementsAre("kept")));
}

TEST(FaultyFileSystemTest, ChosenChangesFail) {
  FaultyFileSystem disk;
  disk.faults().FailAt(1, absl::DataLossError("bad sector"));
  disk.faults().FailFrom(3, absl::UnavailableError("power cut"));
  EXPECT_OK(disk.MakeDirectory("a"));
  EXPECT_THAT(disk.MakeDirectory("b"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_OK(disk.MakeDirectory("c"));
  EXPECT_THAT(disk.MakeDirectory("d"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(disk.MakeDirectory("e"), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(disk.faults().num_changes(), 5);
  EXPECT_THAT(disk.List("."), IsOkAndHolds(ElementsAre("a", "c")));
  disk.faults().StopFailing();
  EXPECT_OK(disk.MakeDirectory("e"));
}

TEST(FaultyFileSystemTest, FullDiskTakesWhatFits) {
  FaultyFileSystem disk;
  disk.SetCapacity(6);
  EXPECT_THAT(disk.SpaceLeft("."), IsOkAndHolds(6u));
  const auto file = MustCreate(disk, "a");
  EXPECT_OK(file->Append("1234"));
  EXPECT_THAT(file->Append("5678"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ReadFile(disk, "a"), IsOkAndHolds("123456"));
  EXPECT_THAT(disk.SpaceLeft("."), IsOkAndHolds(0u));
}

// Simulates a power cut at every change. Afterwards the file has its old or its new contents,
// nothing else.
TEST(WriteAtomicallyTest, PowerCutAnywhereLeavesOldOrNew) {
  bool written = false;
  int cut = 0;
  for (; !written; ++cut) {
    FaultyFileSystem disk;
    ASSERT_OK(WriteAtomically(disk, "a", "old"));
    disk.faults().FailFrom(disk.faults().num_changes() + cut, absl::UnavailableError("power cut"));
    written = WriteAtomically(disk, "a", "new").ok();
    disk.Crash();
    if (written) {
      EXPECT_THAT(ReadFile(disk, "a"), IsOkAndHolds("new"));
    } else {
      EXPECT_THAT(ReadFile(disk, "a"), IsOkAndHolds(AnyOf("old", "new"))) << "cut " << cut;
    }
  }
  EXPECT_EQ(cut - 1, 5) << "create, append, sync, rename, sync the directory";
}

TEST(WriteAtomicallyTest, FullDiskKeepsTheOldFileAndRemovesTheTemporary) {
  FaultyFileSystem disk;
  ASSERT_OK(WriteAtomically(disk, "a", "old"));
  disk.SetCapacity(5);
  EXPECT_THAT(WriteAtomically(disk, "a", "new"), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ReadFile(disk, "a"), IsOkAndHolds("old"));
  EXPECT_THAT(disk.List("."), IsOkAndHolds(ElementsAre("a")));
}

}  // namespace
}  // namespace shoal
