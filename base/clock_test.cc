#include "base/clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/mutex.h"

namespace {
std::atomic<time_t> suspended{0};  // Returns the seconds for which the machine was suspended.
}  // namespace

// The system's time on a machine that was suspended: only the clocks that include suspension have
// advanced.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0 && clock != CLOCK_MONOTONIC) now->tv_sec += suspended;
  return static_cast<int>(result);
}

namespace shoal {
namespace {

TEST(RealClockTest, NowIsTheWallClocksTimeAndNeverGoesBack) {
  const RealClock clock;
  absl::Time last = clock.Now();
  EXPECT_LT(absl::AbsDuration(last - absl::Now()), absl::Minutes(1));
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(RealClockTest, WaitEndsAtTheDeadline) {
  const RealClock clock;
  Mutex mutex;
  CondVar never;
  const absl::Time deadline = clock.Now() + absl::Milliseconds(3);
  MutexLock lock(&mutex);
  while (clock.WaitUntil(deadline, &mutex, &never)) {
  }
  EXPECT_GE(clock.Now(), deadline);
}

TEST(RealClockTest, TimeOfASuspensionCounts) {
  const RealClock clock;
  const absl::Time deadline = clock.Now() + absl::Hours(1);
  suspended += 3600;
  EXPECT_GE(clock.Now(), deadline);
  suspended += 3600;
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  EXPECT_FALSE(clock.WaitUntil(deadline + absl::Hours(1), &mutex, &never));
}

// The system's wait does not count the suspension, so the clock must check the time again.
TEST(RealClockTest, AWaitThatTheMachineWasSuspendedInEnds) {
  const RealClock clock;
  const absl::Time deadline = clock.Now() + absl::Hours(1);
  std::thread machine([] { suspended += 3600; });
  Mutex mutex;
  CondVar never;
  {
    MutexLock lock(&mutex);
    while (clock.WaitUntil(deadline, &mutex, &never)) {
    }
  }
  machine.join();
  EXPECT_GE(clock.Now(), deadline);
}

TEST(FakeClockTest, MovesOnlyWhenAdvanced) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  EXPECT_EQ(clock.Now(), start);
  clock.Advance(absl::Seconds(2));
  EXPECT_EQ(clock.Now(), start + absl::Seconds(2));
}

TEST(FakeClockTest, WaitEndsWhenAdvancedPastTheDeadline) {
  FakeClock clock;
  const absl::Time deadline = clock.Now() + absl::Hours(1);
  std::thread advancer([&] { clock.Advance(absl::Hours(1)); });
  Mutex mutex;
  CondVar never;
  {
    MutexLock lock(&mutex);
    while (clock.WaitUntil(deadline, &mutex, &never)) {
    }
  }
  advancer.join();
  EXPECT_GE(clock.Now(), deadline);
}

}  // namespace
}  // namespace shoal
