#include "base/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "base/notification.h"

namespace shoal {
namespace {

TEST(ThreadPoolTest, EveryScheduledClosureRunsBeforeTheEnd) {
  std::atomic<int> count{0};
  {
    ThreadPool pool("test", 3);
    for (int i = 0; i < 1000; ++i) pool.Schedule([&] { ++count; });
  }
  EXPECT_EQ(count, 1000);
}

TEST(ThreadPoolTest, ClosureMayScheduleAnother) {
  Notification done;
  ThreadPool pool("test", 1);
  pool.Schedule([&] { pool.Schedule([&] { done.Notify(); }); });
  done.Wait();
  EXPECT_TRUE(done.HasBeenNotified());
}

TEST(ThreadPoolTest, ParallelLoopRunsEveryTaskOnce) {
  for (const int num_threads : {0, 1, 4}) {
    ThreadPool pool("test", num_threads);
    for (const int num_tasks : {0, 1, 2, 3, 100}) {
      std::vector<std::atomic<int>> runs(num_tasks);
      pool.RunParallel(num_tasks, [&](int task) { ++runs[task]; });
      for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

// Two tasks that wait for each other end only if they run at the same time.
TEST(ThreadPoolTest, ParallelLoopUsesTheThreads) {
  ThreadPool pool("test", 1);
  Notification here[2];
  pool.RunParallel(2, [&](int task) {
    here[task].Notify();
    here[1 - task].Wait();
  });
  EXPECT_TRUE(here[0].HasBeenNotified() && here[1].HasBeenNotified());
}

TEST(ThreadPoolTest, LoopsOfSeveralThreadsTakeTurns) {
  ThreadPool pool("test", 2);
  std::atomic<int> sum{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 100; ++j) pool.RunParallel(5, [&](int task) { sum += task; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 100 * 10);
}

TEST(ThreadPoolTest, ThreadsAreNamed) {
  ThreadPool pool("compute", 1);
  char name[16] = {};
  Notification done;
  pool.Schedule([&] {
    pthread_getname_np(pthread_self(), name, sizeof(name));
    done.Notify();
  });
  done.Wait();
  EXPECT_STREQ(name, "compute/0");
}

}  // namespace
}  // namespace shoal
