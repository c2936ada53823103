#include "runtime/variables/staging_pool.h"

#include <utility>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(StagingPoolTest, GivesNoMoreThanItsCapacity) {
  StagingPool pool(192);
  StagingPool::Block a = pool.Take(60);
  ASSERT_NE(a.data, nullptr);
  EXPECT_EQ(pool.Take(129).data, nullptr);
  StagingPool::Block b = pool.Take(100);
  ASSERT_NE(b.data, nullptr);
  EXPECT_EQ(pool.free_bytes(), 0u);
  pool.Release(std::move(a));
  EXPECT_EQ(pool.free_bytes(), 64u);
  pool.Release({});
  EXPECT_EQ(pool.free_bytes(), 64u);
}

TEST(StagingPoolTest, CountsWhatABlockTakesNotWhatWasAsked) {
  StagingPool pool(256);
  StagingPool::Block a = pool.Take(129);  // A block of 256.
  ASSERT_NE(a.data, nullptr);
  EXPECT_EQ(pool.Take(1).data, nullptr);
}

TEST(StagingPoolTest, FreeBlocksOfOneSizeMakeRoomForAnother) {
  StagingPool pool(256);
  StagingPool::Block small[4];
  for (StagingPool::Block& block : small) block = pool.Take(64);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  for (StagingPool::Block& block : small) pool.Release(std::move(block));
  EXPECT_EQ(pool.kept_bytes(), 256u);
  StagingPool::Block large = pool.Take(128);
  ASSERT_NE(large.data, nullptr);
  EXPECT_EQ(pool.kept_bytes(), 128u);
}

TEST(StagingPoolTest, UsesReleasedBlocksAgain) {
  StagingPool pool(1000);
  StagingPool::Block a = pool.Take(100);
  const char* const first = a.data.get();
  pool.Release(std::move(a));
  EXPECT_EQ(pool.Take(128).data.get(), first);
}

}  // namespace
}  // namespace shoal
