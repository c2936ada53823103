#include "runtime/variables/staging_pool.h"

#include <utility>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(StagingPoolTest, GivesNoMoreThanItsCapacity) {
  StagingPool pool(100);
  StagingPool::Block a = pool.Take(60);
  ASSERT_NE(a.data, nullptr);
  EXPECT_EQ(pool.Take(41).data, nullptr);
  StagingPool::Block b = pool.Take(40);
  ASSERT_NE(b.data, nullptr);
  EXPECT_EQ(pool.free_bytes(), 0u);
  pool.Release(std::move(a));
  EXPECT_EQ(pool.free_bytes(), 60u);
  pool.Release({});
  EXPECT_EQ(pool.free_bytes(), 60u);
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
