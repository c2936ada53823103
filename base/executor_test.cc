#include "base/executor.h"

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/fake_clock.h"
#include "base/notification.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

TEST(SerialExecutorTest, ClosuresRunInOrderOnOneThread) {
  const RealClock clock;
  SerialExecutor executor("test", clock);
  std::vector<int> ran;
  for (int i = 0; i < 5; ++i) {
    executor.Post([&, i] {
      EXPECT_TRUE(executor.IsCurrentThread());
      ran.push_back(i);
    });
  }
  executor.Stop();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_FALSE(executor.IsCurrentThread());
}

TEST(SerialExecutorTest, ManyThreadsMayPost) {
  const RealClock clock;
  SerialExecutor executor("test", clock);
  int count = 0;
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int j = 0; j < 500; ++j) executor.Post([&] { ++count; });
    });
  }
  for (std::thread& poster : posters) poster.join();
  executor.Stop();
  EXPECT_EQ(count, 2000);
}

TEST(SerialExecutorTest, TimersRunInOrderOfTimeWhenTheClockReachesThem) {
  FakeClock clock;
  SerialExecutor executor("test", clock);
  std::vector<int> ran;
  Notification last;
  const absl::Time start = clock.Now();
  executor.PostAt(start + absl::Seconds(3), [&] {
    ran.push_back(3);
    last.Notify();
  });
  executor.PostAt(start + absl::Seconds(1), [&] { ran.push_back(1); });
  executor.PostAt(start + absl::Seconds(1), [&] { ran.push_back(2); });
  Notification posted;
  executor.Post([&] {
    EXPECT_TRUE(ran.empty());
    posted.Notify();
  });
  posted.Wait();
  clock.Advance(absl::Seconds(3));
  last.Wait();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3));
}

TEST(SerialExecutorTest, CancelledTimerNeverRuns) {
  FakeClock clock;
  SerialExecutor executor("test", clock);
  Notification later;
  const TimerId timer =
      executor.PostAt(clock.Now() + absl::Seconds(1), [] { FAIL() << "was cancelled"; });
  const TimerId other = executor.PostAt(clock.Now() + absl::Seconds(2), [&] { later.Notify(); });
  EXPECT_TRUE(executor.Cancel(timer));
  EXPECT_FALSE(executor.Cancel(timer));
  clock.Advance(absl::Seconds(2));
  later.Wait();
  EXPECT_FALSE(executor.Cancel(other));
}

TEST(SerialExecutorTest, ClosureMayPostAndSetTimers) {
  const RealClock clock;
  SerialExecutor executor("test", clock);
  Notification done;
  executor.Post([&] { executor.PostAt(clock.Now(), [&] { done.Notify(); }); });
  done.Wait();
  EXPECT_TRUE(done.HasBeenNotified());
}

TEST(SerialExecutorTest, StopDropsTimersAndLaterPosts) {
  FakeClock clock;
  SerialExecutor executor("test", clock);
  auto owned = std::make_shared<int>(1);
  executor.PostAt(clock.Now() + absl::Hours(1), [owned] { FAIL() << "was dropped"; });
  executor.Stop();
  executor.Stop();
  executor.Post([owned] { FAIL() << "was dropped"; });
  clock.Advance(absl::Hours(2));
  EXPECT_EQ(owned.use_count(), 2) << "only the timer, until the executor goes";
}

TEST(TimerQueueTest, GivesOutWhatIsDue) {
  TimerQueue timers;
  EXPECT_EQ(timers.next_time(), absl::InfiniteFuture());
  int ran = 0;
  timers.Add(absl::FromUnixSeconds(5), [&] { ran = 5; });
  timers.Add(absl::FromUnixSeconds(4), [&] { ran = 4; });
  EXPECT_EQ(timers.next_time(), absl::FromUnixSeconds(4));
  EXPECT_EQ(timers.TakeDue(absl::FromUnixSeconds(3)), nullptr);
  timers.TakeDue(absl::FromUnixSeconds(5))();
  EXPECT_EQ(ran, 4);
  timers.TakeDue(absl::FromUnixSeconds(5))();
  EXPECT_EQ(ran, 5);
}

}  // namespace
}  // namespace shoal
