#include "chief/chief_task.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "runtime/config/run_config.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class ChiefTaskTest : public ::testing::Test {
 protected:
  ChiefTaskTest() {
    options_.run.set_out(
        absl::StrCat(::testing::TempDir(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name()));
    EXPECT_TRUE(RemoveTree(*files_, options_.run.out()).ok());
    options_.run.set_batch_size(1);
    ResolveDefaults(TaskCounts(), &options_.run);
    options_.clock = &clock_;
    options_.file_system = files_.get();
  }

  absl::StatusOr<std::unique_ptr<ChiefTask>> Create() {
    return ChiefTask::Create(options_, 1, [](uint32_t, const std::string&) { return nullptr; });
  }

  // Creates one on a disk that cannot be locked.
  absl::Status CreateWithoutLock() {
    return ChiefTask::Create(
               options_, 1, [](uint32_t, const std::string&) { return nullptr; },
               ChiefTask::IfHeld::kNotAsked)
        .status();
  }

  std::string Term() { return *ReadFile(*files_, options_.run.out() + "/TERM"); }

  const RealClock clock_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  TaskOptions options_;
};

TEST_F(ChiefTaskTest, ASecondChiefOnADirectoryIsRefusedAndChangesNothing) {
  absl::StatusOr<std::unique_ptr<ChiefTask>> first = Create();
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string token = *ReadFile(*files_, options_.run.out() + "/checkpoints/TOKEN");
  EXPECT_EQ(Term(), "1\n");
  const absl::Status second = Create().status();
  EXPECT_EQ(second.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(second.message()), HasSubstr("--out: another run is using"));
  EXPECT_EQ(Term(), "1\n");
  EXPECT_EQ(*ReadFile(*files_, options_.run.out() + "/checkpoints/TOKEN"), token);
  first->reset();
  EXPECT_TRUE(Create().ok());
  EXPECT_EQ(Term(), "2\n");
}

// A full disk ends a run before it begins, but a run that has begun can be started again.
TEST_F(ChiefTaskTest, AFullDiskIsTemporaryForARunThatHasBegun) {
  FaultyFileSystem disk;
  options_.file_system = &disk;
  disk.faults().FailFrom(0, absl::ResourceExhaustedError("no space left on the device"));
  EXPECT_EQ(CreateWithoutLock().code(), absl::StatusCode::kResourceExhausted);
  disk.faults().StopFailing();
  EXPECT_TRUE(CreateWithoutLock().ok());
  disk.faults().FailFrom(disk.faults().num_changes(),
                         absl::ResourceExhaustedError("no space left on the device"));
  const absl::Status later = CreateWithoutLock();
  EXPECT_EQ(later.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(later.message()), HasSubstr("no space left on the device; make room"));
}

TEST_F(ChiefTaskTest, AFullDiskIsTemporaryForARunThatCannotBeSeenNow) {
  FaultyFileSystem disk;
  options_.file_system = &disk;
  ASSERT_TRUE(CreateWithoutLock().ok());
  disk.faults().FailFrom(disk.faults().num_changes() + 1,
                         absl::ResourceExhaustedError("no space left on the device"));
  const int before = disk.faults().num_reads();
  EXPECT_EQ(CreateWithoutLock().code(), absl::StatusCode::kUnavailable);
  const int reads = disk.faults().num_reads() - before;
  ASSERT_GT(reads, 0);
  for (int read = 0; read < reads; ++read) {
    disk.faults().FailReadAt(disk.faults().num_reads() + read,
                             absl::UnavailableError("input/output error"));
    EXPECT_EQ(CreateWithoutLock().code(), absl::StatusCode::kUnavailable) << "read " << read;
  }
}

TEST_F(ChiefTaskTest, AReadThatFailsIsTemporaryAndKeepsTheIdentityOfTheRun) {
  FaultyFileSystem disk;
  options_.file_system = &disk;
  ASSERT_TRUE(CreateWithoutLock().ok());
  const std::string identity = *ReadFile(disk, options_.run.out() + "/RUN_ID");
  const int before = disk.faults().num_reads();
  ASSERT_TRUE(CreateWithoutLock().ok());
  const int reads = disk.faults().num_reads() - before;
  ASSERT_GT(reads, 3);
  for (int read = 0; read < reads; ++read) {
    disk.faults().FailReadAt(disk.faults().num_reads() + read,
                             absl::UnavailableError("input/output error"));
    const absl::Status status = CreateWithoutLock();
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    disk.faults().StopFailing();
    EXPECT_EQ(*ReadFile(disk, options_.run.out() + "/RUN_ID"), identity) << "read " << read;
  }
}

// Otherwise the tasks of the previous chief, which are still alive, would assume that it belongs to
// another run.
TEST_F(ChiefTaskTest, ARunWithoutACheckpointKeepsItsIdentityWhenItsChiefStartsAgain) {
  std::string first;
  for (const char* const term : {"1\n", "2\n"}) {
    absl::StatusOr<std::unique_ptr<ChiefTask>> task = Create();
    ASSERT_TRUE(task.ok()) << task.status();
    v1::GetRunStatusResponse status;
    ASSERT_TRUE((*task)->chief()->GetRunStatus({}, &status).ok());
    EXPECT_EQ(*ReadFile(*files_, options_.run.out() + "/RUN_ID"), status.run_id() + "\n");
    EXPECT_EQ(Term(), term);
    if (first.empty()) first = status.run_id();
    EXPECT_EQ(status.run_id(), first);
  }
}

TEST_F(ChiefTaskTest, AnIdentityThatIsEmptyIsRefusedWithTheRemedy) {
  ASSERT_TRUE(files_->MakeDirectory(options_.run.out()).ok());
  ASSERT_TRUE(WriteAtomically(*files_, options_.run.out() + "/RUN_ID", "\n").ok());
  const absl::Status status = Create().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("RUN_ID: is empty; remove it"));
}

TEST_F(ChiefTaskTest, ARequestToStopAfterTheTaskIsGoneDoesNothing) {
  ShutdownNotification shutdown;
  {
    absl::StatusOr<std::unique_ptr<ChiefTask>> task = Create();
    ASSERT_TRUE(task.ok()) << task.status();
    StopOnRequest(&shutdown, std::shared_ptr<ChiefTask>(std::move(*task)));
  }
  shutdown.Request();
  EXPECT_TRUE(shutdown.requested());
  EXPECT_FALSE(FileExists(*files_, options_.run.out() + "/summary.json"));
  EXPECT_TRUE(Create().ok()) << "the next chief gets the directory";
}

TEST_F(ChiefTaskTest, ARequestToStopEndsTheRun) {
  ShutdownNotification shutdown;
  absl::StatusOr<std::unique_ptr<ChiefTask>> created = Create();
  ASSERT_TRUE(created.ok()) << created.status();
  const std::shared_ptr<ChiefTask> task = *std::move(created);
  StopOnRequest(&shutdown, task);
  shutdown.Request();
  EXPECT_TRUE(absl::IsCancelled(task->WaitAndConclude()));
}

}  // namespace
}  // namespace shoal
