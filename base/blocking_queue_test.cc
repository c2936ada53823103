#include "base/blocking_queue.h"

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(BlockingQueueTest, ElementsComeOutInOrder) {
  BlockingQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.Push(std::make_unique<int>(1)));
  EXPECT_TRUE(queue.Push(std::make_unique<int>(2)));
  EXPECT_EQ(**queue.Pop(), 1);
  EXPECT_EQ(**queue.Pop(), 2);
  EXPECT_FALSE(queue.TryPop().has_value());
}

TEST(BlockingQueueTest, FullQueueRefusesTryPushAndBlocksPush) {
  BlockingQueue<int> queue(1);
  EXPECT_TRUE(queue.TryPush(1));
  EXPECT_FALSE(queue.TryPush(2));
  std::thread producer([&] { EXPECT_TRUE(queue.Push(3)); });
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), 3);
  producer.join();
}

TEST(BlockingQueueTest, PopForEndsAtTheTimeout) {
  BlockingQueue<int> queue(1);
  EXPECT_EQ(queue.PopFor(absl::Milliseconds(2)), std::nullopt);
  EXPECT_FALSE(queue.is_drained());
  ASSERT_TRUE(queue.Push(4));
  EXPECT_EQ(queue.PopFor(absl::InfiniteDuration()), 4);
}

TEST(BlockingQueueTest, CloseDrainsThenEndsPopsAndRefusesPushes) {
  BlockingQueue<int> queue(2);
  ASSERT_TRUE(queue.Push(1));
  queue.Close();
  EXPECT_FALSE(queue.Push(2));
  EXPECT_FALSE(queue.is_drained());
  EXPECT_EQ(queue.Pop(), 1);
  EXPECT_EQ(queue.Pop(), std::nullopt);
  EXPECT_TRUE(queue.is_drained());
}

TEST(BlockingQueueTest, CloseWakesThoseWhoWait) {
  BlockingQueue<int> empty(1);
  BlockingQueue<int> full(1);
  ASSERT_TRUE(full.Push(1));
  std::thread consumer([&] { EXPECT_EQ(empty.Pop(), std::nullopt); });
  std::thread producer([&] { EXPECT_FALSE(full.Push(2)); });
  empty.Close();
  full.Close();
  consumer.join();
  producer.join();
}

TEST(BlockingQueueTest, NothingIsLostBetweenManyThreads) {
  BlockingQueue<int> queue(3);
  std::vector<std::thread> producers;
  for (int i = 0; i < 4; ++i) {
    producers.emplace_back([&] {
      for (int j = 1; j <= 500; ++j) ASSERT_TRUE(queue.Push(j));
    });
  }
  std::vector<int64_t> sums(3);
  std::vector<std::thread> consumers;
  for (int64_t& sum : sums) {
    consumers.emplace_back([&queue, &sum] {
      while (std::optional<int> element = queue.Pop()) sum += *element;
    });
  }
  for (std::thread& producer : producers) producer.join();
  queue.Close();
  for (std::thread& consumer : consumers) consumer.join();
  EXPECT_EQ(sums[0] + sums[1] + sums[2], 4 * 500 * 501 / 2);
}

}  // namespace
}  // namespace shoal
