#include "base/executor.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/notification.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;

TEST(SerialExecutorTest, ClosuresRunInOrderOnOneThread) {
  SerialExecutor executor("test");
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
  SerialExecutor executor("test");
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

TEST(SerialExecutorTest, ClosuresMayPost) {
  SerialExecutor executor("test");
  Notification done;
  executor.Post([&] { executor.Post([&] { done.Notify(); }); });
  done.Wait();
  EXPECT_TRUE(done.HasBeenNotified());
}

TEST(SerialExecutorTest, StopDropsLaterPosts) {
  SerialExecutor executor("test");
  executor.Stop();
  executor.Stop();
  executor.Post([] { FAIL() << "was dropped"; });
}

}  // namespace
}  // namespace shoal
