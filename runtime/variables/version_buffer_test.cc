#include "runtime/variables/version_buffer.h"

#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(VersionBufferTest, IsReusedOnlyWithoutReferences) {
  VersionBufferPool pool(100);
  VersionBufferRef a = pool.Acquire();
  VersionBufferRef reader = a;
  VersionBuffer* const first = a.get();
  EXPECT_TRUE(a.IsShared());
  a.Reset();
  VersionBufferRef b = pool.Acquire();
  EXPECT_NE(b.get(), first);
  reader.Reset();
  EXPECT_FALSE(b.IsShared());
  VersionBufferRef c = pool.Acquire();
  EXPECT_EQ(c.get(), first);
  EXPECT_EQ(pool.num_buffers(), 2u);
}

TEST(VersionBufferTest, OutlivesItsPoolWhileHeld) {
  VersionBufferRef held;
  {
    VersionBufferPool pool(10);
    held = pool.Acquire();
    held->data()[9] = 4;
  }
  EXPECT_EQ(held->data()[9], 4);
}

TEST(VersionBufferTest, BuffersOfAPeakAreDeletedAfterAWhileAndASteadyStateKeepsItsBuffers) {
  VersionBufferPool pool(10);
  std::vector<VersionBufferRef> peak;
  for (int i = 0; i < 8; ++i) peak.push_back(pool.Acquire());
  const auto take_turns = [&pool](int times) {
    VersionBufferRef current = pool.Acquire();
    for (int i = 0; i < times; ++i) current = pool.Acquire();
  };
  take_turns(1000);
  EXPECT_EQ(pool.num_buffers(), 8u + 2);  // All but these two are held.
  peak.clear();
  take_turns(50);
  EXPECT_EQ(pool.num_buffers(), 8u + 2);  // Another peak may come soon.
  take_turns(1000);
  EXPECT_LE(pool.num_buffers(), 3u);
  const size_t steady = pool.num_buffers();
  take_turns(1000);
  EXPECT_EQ(pool.num_buffers(), steady);
}

TEST(VersionBufferTest, IsAlignedAndHasItsSize) {
  VersionBufferPool pool(3);
  VersionBufferRef a = pool.Acquire();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % 64, 0u);
  EXPECT_EQ(a->size(), 3u);
}

TEST(VersionBufferTest, ReadersOnOtherThreadsNeverSeeTheNextOwnersWrites) {
  VersionBufferPool pool(64);
  for (int round = 0; round < 200; ++round) {
    VersionBufferRef written = pool.Acquire();
    for (size_t i = 0; i < 64; ++i) written->data()[i] = static_cast<float>(round);
    std::thread reader([held = written, round] {
      for (size_t i = 0; i < 64; ++i) EXPECT_EQ(held->data()[i], static_cast<float>(round));
    });
    written.Reset();
    VersionBufferRef next = pool.Acquire();
    for (size_t i = 0; i < 64; ++i) next->data()[i] = -1;
    reader.join();
  }
  EXPECT_LE(pool.num_buffers(), 2u);
}

}  // namespace
}  // namespace shoal
