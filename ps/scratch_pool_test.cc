#include "ps/scratch_pool.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(ScratchPoolTest, TheBufferThatWasGivenLastIsTakenFirst) {
  ScratchPool pool(2);
  pool.Give(std::vector<char>(10));
  pool.Give(std::vector<char>(20));
  EXPECT_EQ(pool.kept_bytes(), 30u);
  EXPECT_EQ(pool.Take().size(), 20u);
  EXPECT_EQ(pool.Take().size(), 10u);
  EXPECT_TRUE(pool.Take().empty());
}

TEST(ScratchPoolTest, AfterARushNoMoreIsKeptThanTheSumOfMemoryContains) {
  ScratchPool pool(3);
  std::vector<std::vector<char>> in_use;
  for (int i = 0; i < 100; ++i) {
    in_use.push_back(pool.Take());
    in_use.back().resize(1 << 10);
  }
  for (std::vector<char>& buffer : in_use) pool.Give(std::move(buffer));
  EXPECT_EQ(pool.kept_bytes(), 3u << 10);
}

TEST(ScratchPoolTest, BuffersWithoutMemoryTakeNoPlaces) {
  ScratchPool pool(1);
  pool.Give({});
  pool.Give(std::vector<char>(10));
  EXPECT_EQ(pool.kept_bytes(), 10u);
}

}  // namespace
}  // namespace shoal
