#include "deploy/inspect_command.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/checkpoint/checkpoint_testing.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class InspectCommandTest : public ::testing::Test {
 protected:
  InspectCommandTest() {
    std::string pattern = ::testing::TempDir() + "/inspect.XXXXXX";
    out_ = mkdtemp(pattern.data());
    for (const uint64_t step : {10, 20}) {
      options_.step = step;
      EXPECT_OK(SaveTestRun(*file_system_, out_ + "/checkpoints", options_));
    }
  }

  const std::unique_ptr<FileSystem> file_system_ = NewPosixFileSystem();
  SaveOptions options_;
  std::string out_;
};

TEST_F(InspectCommandTest, DescribesTheNewestCheckpoint) {
  const absl::StatusOr<RunReport> report = InspectRun(file_system_.get(), out_, std::nullopt);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->text, HasSubstr("* ckpt-20-"));
  EXPECT_THAT(report->text, HasSubstr("  ckpt-10-"));
  EXPECT_THAT(report->text, HasSubstr("step 20"));
  EXPECT_THAT(report->text, HasSubstr("shard-00001-of-00002.safetensors"));
  EXPECT_THAT(report->text, HasSubstr("bytes, verified"));
  EXPECT_THAT(report->text, HasSubstr(TestVariables()[0].name()));
}

TEST_F(InspectCommandTest, AnotherStepMayBeAskedFor) {
  EXPECT_THAT(InspectRun(file_system_.get(), out_, 10)->text, HasSubstr("* ckpt-10-"));
  EXPECT_THAT(
      InspectRun(file_system_.get(), out_, 11),
      StatusIs(absl::StatusCode::kNotFound,
               HasSubstr("--step: there is no checkpoint of step 11; there are those of 20, 10")));
}

TEST_F(InspectCommandTest, DamageIsFoundAndWhatIsWholeIsListed) {
  const std::string shard =
      out_ + "/checkpoints/" + TestName(options_).ToString() + "/shard-00000-of-00002.safetensors";
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  const absl::StatusOr<RunReport> report = InspectRun(file_system_.get(), out_, std::nullopt);
  ASSERT_OK(report.status());
  EXPECT_THAT(report->damage,
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("shard-00000-of-00002.safetensors")));
  // The one before it is described.
  EXPECT_THAT(report->text, HasSubstr("  damaged: "));
  EXPECT_THAT(report->text, HasSubstr("* ckpt-10-"));
  EXPECT_EQ(InspectMain({"--out=" + out_}), 65);
}

TEST(InspectCommandFaultTest, CheckpointsThatCannotBeSeenNowAreNotMissing) {
  FaultyFileSystem disk;
  EXPECT_THAT(InspectRun(&disk, "run", std::nullopt),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("there is no ")));
  disk.faults().FailReadAt(disk.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_THAT(InspectRun(&disk, "run", std::nullopt), StatusIs(absl::StatusCode::kUnavailable));
}

// Removes a checkpoint when it is about to be read, as a chief does that keeps the newest.
class PruningFileSystem : public FaultyFileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    if (!to_prune.empty() && path.find(to_prune) != std::string::npos) {
      EXPECT_OK(Remove("run/checkpoints/" + std::exchange(to_prune, "") + "/MANIFEST"));
    }
    return FaultyFileSystem::OpenForRead(path);
  }

  std::string to_prune;
};

TEST(InspectRunTest, CheckpointsThatTheRunRemovesMeanwhileAreNotDamaged) {
  PruningFileSystem disk;
  SaveOptions options;
  for (const uint64_t step : {10, 20}) {
    options.step = step;
    ASSERT_OK(SaveTestRun(disk, "run/checkpoints", options));
  }
  options.step = 10;
  disk.to_prune = TestName(options).ToString();
  const absl::StatusOr<RunReport> report = InspectRun(&disk, "run", std::nullopt);
  ASSERT_OK(report.status());
  EXPECT_OK(report->damage);
  EXPECT_THAT(report->text, HasSubstr("* ckpt-20-"));
  EXPECT_THAT(report->text, Not(HasSubstr("ckpt-10-")));
}

TEST_F(InspectCommandTest, CheckpointsThatSomebodyRemovedAreMissed) {
  ASSERT_OK(WriteAtomically(*file_system_, out_ + "/run.textproto", ""));
  ASSERT_OK(WriteAtomically(*file_system_, out_ + "/summary.json", ""));
  for (const uint64_t step : {10, 20}) {
    options_.step = step;
    ASSERT_OK(RemoveTree(*file_system_, out_ + "/checkpoints/" + TestName(options_).ToString()));
  }
  EXPECT_THAT(InspectRun(file_system_.get(), out_, std::nullopt),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("/checkpoints/LATEST: names " + TestName(options_).ToString() +
                                 ", but no checkpoint is there any more; bring it back, or name "
                                 "the directory of another run")));
  EXPECT_EQ(InspectMain({"--out=" + out_}), 78);
}

TEST_F(InspectCommandTest, BadDirectoriesAreNamedAndNotMade) {
  const auto error_of = [this](const std::string& path) {
    return std::string(InspectRun(file_system_.get(), path, std::nullopt).status().message());
  };
  const std::string none = out_ + "/none", file = out_ + "/file", empty = out_ + "/empty";
  EXPECT_EQ(error_of(none), "there is no " + none + "; name the directory of a run");
  EXPECT_FALSE(file_system_->GetInfo(none).ok());
  ASSERT_OK(WriteAtomically(*file_system_, file, ""));
  EXPECT_EQ(error_of(file), file + " is not a directory; name the directory of a run");
  ASSERT_OK(file_system_->MakeDirectory(empty));
  EXPECT_EQ(error_of(empty), empty +
                                 " holds no run: it has no run.textproto; name the directory of a "
                                 "run");
  ASSERT_OK(WriteAtomically(*file_system_, empty + "/run.textproto", ""));
  EXPECT_THAT(error_of(empty), HasSubstr("the run in " + empty + " has no checkpoint yet; wait"));
  EXPECT_EQ(InspectMain({"--out=" + out_}), 0);
  EXPECT_EQ(InspectMain({"--out=" + out_ + "/none"}), 78);
  EXPECT_EQ(InspectMain({}), 64);
  EXPECT_EQ(InspectMain({"--help"}), 0);
}

}  // namespace
}  // namespace shoal
