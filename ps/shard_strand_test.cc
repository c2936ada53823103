#include "ps/shard_strand.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "base/notification.h"

namespace shoal {
namespace {

// Adds without a lock.
class AddJob : public ShardStrand::Job {
 public:
  void Run() override {
    ++*sum;
    done.Notify();
  }
  void Keep() override { kept = true; }
  uint64_t* sum = nullptr;
  bool kept = false;
  Notification done;
};

TEST(ShardStrandTest, JobsOfManyThreadsRunOneAfterTheOtherAndNoneIsLost) {
  constexpr int kThreads = 4;
  constexpr int kJobs = 2000;
  ShardStrand strand;
  uint64_t sum = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < kJobs; ++j) {
        AddJob job;
        job.sum = &sum;
        strand.Run(&job);
        job.done.Wait();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, uint64_t{kThreads} * kJobs);
}

TEST(ShardStrandTest, JobsThatComeMeanwhileAreRunByTheThreadAtWork) {
  class Outer : public ShardStrand::Job {
   public:
    void Run() override {
      std::thread([this] { strand.Run(&inner); }).join();
      EXPECT_TRUE(inner.kept);
      EXPECT_EQ(sum, 0u);
    }
    void Keep() override { ADD_FAILURE() << "nobody was at work"; }
    ShardStrand strand;
    AddJob inner;
    uint64_t sum = 0;
  };
  Outer outer;
  outer.inner.sum = &outer.sum;
  outer.strand.Run(&outer);
  EXPECT_EQ(outer.sum, 1u);
}

}  // namespace
}  // namespace shoal
