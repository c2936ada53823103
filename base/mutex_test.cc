#include "base/mutex.h"

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "base/notification.h"

namespace shoal {
namespace {

TEST(MutexTest, LockExcludesOtherThreads) {
  Mutex mutex;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 5000; ++j) {
        MutexLock lock(&mutex);
        ++count;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count, 20000);
}

TEST(CondVarTest, WaitEndsWhenAnotherThreadNotifies) {
  Mutex mutex;
  CondVar changed;
  bool ready = false;
  std::thread notifier([&] {
    MutexLock lock(&mutex);
    ready = true;
    changed.NotifyAll();
  });
  {
    MutexLock lock(&mutex);
    while (!ready) changed.Wait(&mutex);
    EXPECT_TRUE(ready);
  }
  notifier.join();
}

TEST(CondVarTest, WaitForEndsAtTheTimeout) {
  Mutex mutex;
  CondVar never;
  const absl::Time start = absl::Now();
  MutexLock lock(&mutex);
  while (never.WaitFor(&mutex, absl::Milliseconds(5))) {
  }
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(4));
}

TEST(CondVarTest, AlreadyExpiredTimeoutDoesNotBlock) {
  Mutex mutex;
  CondVar never;
  MutexLock lock(&mutex);
  while (never.WaitFor(&mutex, -absl::InfiniteDuration())) {
  }
  EXPECT_FALSE(never.WaitFor(&mutex, absl::ZeroDuration()));
}

TEST(NotificationTest, WaitReturnsAfterNotifyAndStaysUp) {
  Notification notification;
  EXPECT_FALSE(notification.HasBeenNotified());
  EXPECT_FALSE(notification.WaitFor(absl::Milliseconds(1)));
  std::thread notifier([&] { notification.Notify(); });
  notification.Wait();
  notifier.join();
  EXPECT_TRUE(notification.HasBeenNotified());
  EXPECT_TRUE(notification.WaitFor(absl::InfiniteDuration()));
}

}  // namespace
}  // namespace shoal
