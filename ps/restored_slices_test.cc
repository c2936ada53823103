#include "ps/restored_slices.h"

#include <memory>
#include <set>
#include <string>

#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/parameter_service.pb.h"

namespace shoal {
namespace {

// A client of NFS that has looked for all names before they were made: it sees the names in a
// directory only once it has opened the directory.
class ForgetfulFiles : public FaultyFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    if (!IsSeen(path)) return absl::NotFoundError(path);
    return FaultyFileSystem::OpenForRead(path);
  }
  absl::StatusOr<FileInfo> GetInfo(const std::string& path) const override {
    if (!IsSeen(path)) return absl::NotFoundError(path);
    return FaultyFileSystem::GetInfo(path);
  }
  absl::Status SyncDirectory(const std::string& path) override {
    if (!IsSeen(path)) return absl::NotFoundError(path);
    opened_.insert(path);
    if (goes_away_) faults().FailReadAt(faults().num_reads(), absl::UnavailableError("stale"));
    return FaultyFileSystem::SyncDirectory(path);
  }

  // The next read fails after a directory was opened.
  void GoAwayWhenADirectoryIsOpened() { goes_away_ = true; }

 private:
  bool IsSeen(const std::string& path) const {
    return path == "." || opened_.count(ParentDirectory(path)) > 0;
  }

  std::set<std::string> opened_;
  bool goes_away_ = false;
};

class CheckRootIsSharedTest : public ::testing::Test {
 protected:
  CheckRootIsSharedTest() {
    request_.set_checkpoint_root("out/checkpoints");
    request_.set_token("token");
    EXPECT_OK(files_.MakeDirectory("out/checkpoints"));
  }

  void WriteToken(const std::string& token) {
    ASSERT_OK_AND_ASSIGN(const auto file, files_.Create("out/checkpoints/TOKEN"));
    ASSERT_OK(file->Append(token));
  }

  ForgetfulFiles files_;
  v1::LoadSlicesRequest request_;
};

TEST_F(CheckRootIsSharedTest, ATokenThatWasMissingBeforeIsSeen) {
  WriteToken("token\n");
  EXPECT_OK(CheckRootIsShared(&files_, request_));
}

TEST_F(CheckRootIsSharedTest, AFileServerThatGoesAwayMeanwhileIsNotAnotherDirectory) {
  WriteToken("token\n");
  files_.GoAwayWhenADirectoryIsOpened();
  EXPECT_THAT(CheckRootIsShared(&files_, request_), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(CheckRootIsSharedTest, WithoutTheTokenTheDirectoryIsRefused) {
  EXPECT_THAT(CheckRootIsShared(&files_, request_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  WriteToken("another");
  EXPECT_THAT(CheckRootIsShared(&files_, request_),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace shoal
