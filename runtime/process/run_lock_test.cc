#include "runtime/process/run_lock.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"

namespace shoal {
namespace {

using Holder = RunLock::Holder;

class RunLockTest : public ::testing::Test {
 protected:
  RunLockTest() : out_(absl::StrCat(::testing::TempDir(), "/run_lock")) {
    mkdir(out_.c_str(), 0755);
  }

  const std::string out_;
};

TEST_F(RunLockTest, OneHolderOfAKindAtATime) {
  {
    const absl::StatusOr<RunLock> chief = RunLock::Acquire(out_, Holder::kChief);
    ASSERT_TRUE(chief.ok()) << chief.status();
    EXPECT_TRUE(absl::IsAlreadyExists(RunLock::Acquire(out_, Holder::kChief).status()));
    EXPECT_TRUE(RunLock::Acquire(out_, Holder::kLauncher).ok());
  }
  EXPECT_TRUE(RunLock::Acquire(out_, Holder::kChief).ok());
}

TEST_F(RunLockTest, WaitsForAHolderThatEnds) {
  std::optional<RunLock> first(*RunLock::Acquire(out_, Holder::kChief));
  std::thread ends([&first] { first.reset(); });
  EXPECT_TRUE(RunLock::Acquire(out_, Holder::kChief, absl::Seconds(30)).ok());
  ends.join();
}

TEST_F(RunLockTest, ARefusalNamesTheHolder) {
  EXPECT_EQ(RunLock::ReadHolder(out_ + "/none", Holder::kChief), "");
  const absl::StatusOr<RunLock> held = RunLock::Acquire(out_, Holder::kChief);
  ASSERT_TRUE(held.ok()) << held.status();
  const std::string self = absl::StrCat("pid ", getpid(), " on ");
  EXPECT_EQ(RunLock::ReadHolder(out_, Holder::kChief).rfind(self, 0), 0u)
      << RunLock::ReadHolder(out_, Holder::kChief);
  const absl::Status refused = RunLock::Acquire(out_, Holder::kChief).status();
  EXPECT_NE(refused.message().find(self), std::string::npos) << refused;
}

TEST_F(RunLockTest, ALockIsHeldUntilItsHolderEnds) {
  EXPECT_FALSE(RunLock::IsHeld(out_ + "/none", Holder::kChief));
  {
    const absl::StatusOr<RunLock> held = RunLock::Acquire(out_, Holder::kChief);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_TRUE(RunLock::IsHeld(out_, Holder::kChief));
    EXPECT_FALSE(RunLock::IsHeld(out_, Holder::kLauncher));
    // Looking changes nothing.
    EXPECT_NE(RunLock::ReadHolder(out_, Holder::kChief), "");
  }
  EXPECT_FALSE(RunLock::IsHeld(out_, Holder::kChief));
}

TEST_F(RunLockTest, IfThereMakesNothing) {
  EXPECT_TRUE(absl::IsNotFound(RunLock::AcquireIfExists(out_ + "/none", Holder::kChief).status()));
  EXPECT_TRUE(RunLock::Acquire(out_, Holder::kChief).ok());
  const absl::StatusOr<RunLock> held = RunLock::AcquireIfExists(out_, Holder::kChief);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(absl::IsAlreadyExists(RunLock::AcquireIfExists(out_, Holder::kChief).status()));
}

TEST_F(RunLockTest, ItsFileContainsSinceWhenItIsHeld) {
  EXPECT_EQ(RunLock::HeldSince(out_ + "/none", Holder::kChief).value(), std::nullopt);
  const absl::Time before = absl::Now() - absl::Seconds(1);  // Files have a coarser clock.
  {
    absl::StatusOr<RunLock> held = RunLock::Acquire(out_, Holder::kChief);
    ASSERT_TRUE(held.ok()) << held.status();
    const RunLock moved = *std::move(held);
    EXPECT_GE(RunLock::HeldSince(out_, Holder::kChief).value(), before);
    EXPECT_FALSE(RunLock::Acquire(out_, Holder::kChief).ok());
    EXPECT_NE(RunLock::HeldSince(out_, Holder::kChief).value(), std::nullopt) << "who is refused";
  }
  EXPECT_EQ(RunLock::HeldSince(out_, Holder::kChief).value(), std::nullopt);
}

TEST_F(RunLockTest, AFileThatCannotBeSeenMayBeHeld) {
  const absl::StatusOr<RunLock> held = RunLock::Acquire(out_, Holder::kChief);
  ASSERT_TRUE(held.ok()) << held.status();
  for (const int error : {EIO, ESTALE}) {
    RunWithFailingCall(SYS_newfstatat, error, [this] {
      const absl::Status status = RunLock::HeldSince(out_, Holder::kChief).status();
      EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    });
  }
  RunWithFailingCall(SYS_newfstatat, EACCES, [this] {
    const absl::Status status = RunLock::HeldSince(out_, Holder::kChief).status();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  });
}

TEST_F(RunLockTest, AFileSystemThatFailsMayRecover) {
  for (const long call : {SYS_openat, SYS_flock}) {
    for (const int error : {EIO, ESTALE, ENOLCK, ENOTCONN}) {
      RunWithFailingCall(call, error, [this] {
        const absl::Status status = RunLock::Acquire(out_, Holder::kChief).status();
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_NE(status.message().find(out_), std::string::npos) << status;
      });
    }
    for (const int error : {EACCES, EPERM, EROFS}) {
      RunWithFailingCall(call, error, [this] {
        const absl::Status status = RunLock::Acquire(out_, Holder::kChief).status();
        EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
      });
    }
  }
}

TEST_F(RunLockTest, ADirectoryThatIsNotThereIsAnError) {
  const absl::StatusOr<RunLock> lock = RunLock::Acquire(out_ + "/none", Holder::kChief);
  EXPECT_TRUE(absl::IsPermissionDenied(lock.status())) << lock.status();
}

}  // namespace
}  // namespace shoal
