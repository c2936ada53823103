#include "runtime/checkpoint/checksummed_file.h"

#include <errno.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/checkpoint_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The errors of link on file systems that have no hard links.
constexpr int kNoLinks[] = {EPERM, ENOSYS, EOPNOTSUPP};

class ChecksummedFileTest : public ::testing::Test {
 protected:
  ChecksummedFileTest() {
    EXPECT_OK(RemoveTree(*disk_, root_));
    EXPECT_OK(disk_->MakeDirectory(root_));
  }

  absl::Status Write(const std::string& name, const std::string& bytes) {
    ASSIGN_OR_RETURN(const std::unique_ptr<ChecksummedFileWriter> file,
                     ChecksummedFileWriter::Create(*disk_, root_, name, bytes.size()));
    RETURN_IF_ERROR(file->Append(bytes));
    return file->Finish().status();
  }

  const std::unique_ptr<FileSystem> disk_ = NewPosixFileSystem();
  const std::string root_ = ::testing::TempDir() + "/checksummed";
};

TEST_F(ChecksummedFileTest, ANameIsGivenOnceAlsoWithoutHardLinks) {
  for (const int error : kNoLinks) {
    RunWithFailingCall(SYS_link, error, [this] {
      EXPECT_OK(Write("a", "one"));
      EXPECT_OK(Write("a", "one")) << "an attempt after one that failed";
      EXPECT_THAT(Write("a", "two"), StatusIs(absl::StatusCode::kAlreadyExists));
      EXPECT_THAT(disk_->List(root_), IsOkAndHolds(ElementsAre("a")));
      EXPECT_THAT(ReadFile(*disk_, JoinPath(root_, "a")), IsOkAndHolds("one"));
      EXPECT_OK(disk_->Remove(JoinPath(root_, "a")));
    });
  }
}

TEST_F(ChecksummedFileTest, AnotherErrorOfALinkIsReturned) {
  RunWithFailingCall(SYS_link, EIO, [this] {
    EXPECT_THAT(Write("a", "one"), StatusIs(absl::StatusCode::kUnavailable));
  });
  EXPECT_THAT(disk_->List(root_), IsOkAndHolds(IsEmpty()));
}

TEST_F(ChecksummedFileTest, ACheckpointNeedsNoHardLinks) {
  for (const int error : kNoLinks) {
    const std::string checkpoints = JoinPath(root_, "checkpoints");
    SaveOptions options;
    options.with_table = true;
    RunWithFailingCall(SYS_link, error,
                       [&] { EXPECT_OK(SaveTestRun(*disk_, checkpoints, options)); });
    ASSERT_OK_AND_ASSIGN(const auto directory, CheckpointDirectory::Open(*disk_, checkpoints));
    std::vector<std::string> rejected;
    ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                         directory->OpenLatestValid(Checkpoint::Verify::kEverything, &rejected));
    EXPECT_OK(VerifyTestRun(*checkpoint, options));
    EXPECT_OK(RemoveTree(*disk_, checkpoints));
  }
}

}  // namespace
}  // namespace shoal
