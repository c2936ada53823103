#include "tests/simulation/fibers.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "base/executor.h"
#include "base/mutex.h"
#include "base/periodic_task.h"

namespace shoal {
namespace {

TEST(FibersTest, ThreadsTakeTurnsInAnOrderOfTheSeed) {
  std::vector<std::string> orders;
  for (const uint64_t seed : {1, 2, 3, 4, 1}) {
    Fibers fibers(seed);
    FiberHost host{"host"};
    std::string order;
    bool done = false;
    fibers.Start(&host, [&] {
      std::vector<std::thread> threads;
      for (char c = 'a'; c < 'h'; ++c) threads.emplace_back([&order, c] { order += c; });
      for (std::thread& thread : threads) thread.join();
      done = true;
    });
    ASSERT_TRUE(
        fibers.Run(absl::InfiniteFuture(), [&] { return done && fibers.num_fibers() == 0; }));
    EXPECT_EQ(order.size(), 7u);
    orders.push_back(order);
  }
  EXPECT_EQ(orders[0], orders[4]);
  EXPECT_NE(orders[0], orders[1]);
}

TEST(FibersTest, WaitsTakeVirtualTime) {
  Fibers fibers(1);
  FiberHost host{"host"};
  Mutex mutex;
  CondVar changed;
  bool notified = false, timed_out = false;
  fibers.Start(&host, [&] {
    MutexLock lock(&mutex);
    while (!notified) changed.Wait(&mutex);
    EXPECT_EQ(fibers.seconds(), 1000);
    timed_out = !changed.WaitFor(&mutex, absl::Seconds(5));
  });
  fibers.Start(&host, [&] {
    fibers.Sleep(absl::Seconds(1000));
    MutexLock lock(&mutex);
    notified = true;
    changed.NotifyAll();
  });
  EXPECT_FALSE(fibers.Run(absl::InfiniteFuture(), [] { return false; }));
  EXPECT_TRUE(timed_out);
  EXPECT_EQ(fibers.seconds(), 1005);
}

TEST(FibersTest, APausedHostMissesNothing) {
  Fibers fibers(1);
  FiberHost host{"paused"};
  int beats = 0;
  fibers.Start(&host, [&] {
    PeriodicTask beat("beat", absl::Seconds(1), *fibers.clock(), [&] { ++beats; });
    fibers.Sleep(absl::Seconds(5.5));
  });
  fibers.After(absl::Seconds(2.5), [&] { fibers.Pause(&host); });
  int beats_while_paused = 0;
  fibers.After(absl::Seconds(20), [&] {
    beats_while_paused = beats;
    fibers.Resume(&host);
  });
  EXPECT_FALSE(fibers.Run(absl::InfiniteFuture(), [] { return false; }));
  EXPECT_LE(beats_while_paused, 3);
  EXPECT_EQ(fibers.num_fibers(), 0u);
}

TEST(FibersTest, ExecutorsOfTheProgramRunAsTheyAre) {
  Fibers fibers(7);
  FiberHost host{"host"};
  std::vector<int> ran;
  fibers.Start(&host, [&] {
    SerialExecutor executor("executor");
    for (int i = 0; i < 5; ++i) executor.Post([&ran, i] { ran.push_back(i); });
    executor.Stop();
  });
  EXPECT_FALSE(fibers.Run(absl::InfiniteFuture(), [] { return false; }));
  EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace shoal
