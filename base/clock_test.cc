#include "base/clock.h"

#include <thread>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/mutex.h"

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
