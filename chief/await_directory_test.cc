#include "chief/await_directory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/fake_clock.h"
#include "base/file_system.h"
#include "base/notification.h"
#include "base/unique_fd.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/run_lock.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AwaitDirectoryTest : public ::testing::Test {
 protected:
  AwaitDirectoryTest() {
    options_.run.set_out(
        absl::StrCat(::testing::TempDir(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name()));
    EXPECT_TRUE(files_->MakeDirectory(options_.run.out()).ok());
    options_.run.mutable_cluster()->set_wait_seconds(60);
    options_.clock = &real_;
    options_.shutdown = &shutdown_;
    TaskMonitor::Options monitor;
    monitor.clock = &real_;
    monitor_.emplace(std::move(monitor));
    options_.monitor = &*monitor_;
    absl::StatusOr<RunLock> held = RunLock::Acquire(options_.run.out(), RunLock::Holder::kChief);
    EXPECT_TRUE(held.ok()) << held.status();
    held_.emplace(*std::move(held));
    self_ = absl::StrCat("pid ", getpid(), " on ");
    lock_file_ = options_.run.out() + "/CHIEF_LOCK";
  }

  // Releases the lock and puts a socket in the place of its file, so that open fails with ENXIO.
  void BreakLock() {
    held_.reset();
    EXPECT_TRUE(files_->Remove(lock_file_).ok());
    const UniqueFd directory(open(options_.run.out().c_str(), O_PATH | O_CLOEXEC));
    const UniqueFd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un at = {};
    at.sun_family = AF_UNIX;  // The whole path may be too long for an address.
    snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/CHIEF_LOCK", directory.get());
    EXPECT_EQ(bind(socket_fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  }

  const RealClock real_;
  FakeClock fake_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  ShutdownNotification shutdown_;
  TaskOptions options_;
  std::optional<TaskMonitor> monitor_;
  std::optional<RunLock> held_;
  std::string self_;
  std::string lock_file_;
};

TEST_F(AwaitDirectoryTest, AHeldDirectoryIsAwaitedAndThePagesNameItsHolder) {
  Notification taken;
  std::thread waits([&] {
    const absl::StatusOr<RunLock> lock = AwaitDirectory(options_);
    EXPECT_TRUE(lock.ok()) << lock.status();
    taken.Notify();
  });
  while (monitor_->StatusText().find("waits for another chief") == std::string::npos) {
    ASSERT_FALSE(taken.HasBeenNotified());
    std::this_thread::yield();
  }
  EXPECT_THAT(monitor_->StatusText(), HasSubstr(self_));
  EXPECT_FALSE(taken.HasBeenNotified());
  held_.reset();
  EXPECT_TRUE(taken.WaitFor(absl::Seconds(30)));
  waits.join();
  EXPECT_THAT(monitor_->StatusText(), Not(HasSubstr("waits for another chief")));
}

TEST_F(AwaitDirectoryTest, OneThatIsHeldTooLongIsWorthAnotherTryAndItsHolderIsNamed) {
  options_.run.mutable_cluster()->set_wait_seconds(1);
  const absl::Status status = AwaitDirectory(options_).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(self_), HasSubstr("waited 1s"), HasSubstr("cluster.wait_seconds")));
}

TEST_F(AwaitDirectoryTest, AFileSystemThatFailsIsAwaited) {
  BreakLock();
  Notification taken;
  std::thread waits([&] {
    const absl::StatusOr<RunLock> lock = AwaitDirectory(options_);
    EXPECT_TRUE(lock.ok()) << lock.status();
    taken.Notify();
  });
  while (monitor_->StatusText().find("or the file system, to let go") == std::string::npos) {
    ASSERT_FALSE(taken.HasBeenNotified());
    std::this_thread::yield();
  }
  EXPECT_FALSE(taken.HasBeenNotified());
  EXPECT_TRUE(files_->Remove(lock_file_).ok());
  EXPECT_TRUE(taken.WaitFor(absl::Seconds(30)));
  waits.join();
}

TEST_F(AwaitDirectoryTest, AFileSystemThatFailsTooLongIsWorthAnotherTry) {
  BreakLock();
  options_.run.mutable_cluster()->set_wait_seconds(1);
  const absl::Status status = AwaitDirectory(options_).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cannot be locked now (" + lock_file_ + ": No such device"),
                    HasSubstr("repair the file system")));
}

TEST_F(AwaitDirectoryTest, TheLogContainsForHowLongTheDirectoryHasBeenHeld) {
  fake_.Advance(absl::Now() - fake_.Now() + absl::Hours(1) + absl::Seconds(30));
  options_.clock = &fake_;
  options_.run.mutable_cluster()->set_wait_seconds(1);
  ::testing::internal::CaptureStderr();
  std::thread waits([&] { EXPECT_TRUE(absl::IsUnavailable(AwaitDirectory(options_).status())); });
  while (monitor_->StatusText().find("for 1h") == std::string::npos) std::this_thread::yield();
  fake_.Advance(absl::Seconds(2));
  waits.join();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, AllOf(HasSubstr("is held by another chief, " + self_), HasSubstr(", for 1h")));
}

TEST_F(AwaitDirectoryTest, ARequestToStopEndsTheWaitAtOnce) {
  std::thread asks([&] {
    while (monitor_->StatusText().find("waits for another chief") == std::string::npos) {
      std::this_thread::yield();
    }
    shutdown_.Request(SIGTERM);
  });
  const absl::Time begun = real_.Now();
  const absl::Status status = AwaitDirectory(options_).status();
  asks.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(ToExitCode(status, shutdown_), 143);
  EXPECT_LT(real_.Now() - begun, absl::Seconds(40)) << "it did not wait to the end";
}

TEST_F(AwaitDirectoryTest, OneThatCannotBeWrittenIsRefusedAtOnce) {
  options_.run.set_out(options_.run.out() + "/none");
  EXPECT_TRUE(absl::IsPermissionDenied(AwaitDirectory(options_).status()));
}

}  // namespace
}  // namespace shoal
