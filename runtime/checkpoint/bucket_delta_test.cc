#include "runtime/checkpoint/bucket_delta.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A row of one float for each key, which is 10 times the version that touched it.
BucketRows Rows(std::vector<uint64_t> keys, std::vector<uint32_t> touched) {
  BucketRows rows;
  for (const uint32_t version : touched) rows.rows.push_back(static_cast<float>(10 * version));
  rows.keys = std::move(keys);
  rows.touched = std::move(touched);
  return rows;
}

BucketRows WithCounts(BucketRows rows, std::vector<uint64_t> keys, std::vector<uint32_t> counts,
                      std::vector<uint32_t> touched) {
  rows.counted_keys = std::move(keys);
  rows.counts = std::move(counts);
  rows.counted_touched = std::move(touched);
  return rows;
}

TEST(BucketDeltaTest, TheNewestRowOrCountOfEachKeyIsTaken) {
  const std::vector<BucketRows> layers = {
      WithCounts(Rows({2, 4, 8}, {1, 5, 3}), {1, 3, 9}, {1, 2, 1}, {4, 5, 2}),
      WithCounts(Rows({3, 4}, {7, 8}), {0, 9}, {1, 2}, {6, 7}),  // Key 3 has a row now.
      Rows({}, {}),
      WithCounts(Rows({8}, {10}), {9}, {3}, {10}),
  };
  const BucketRows all = ApplyChanges(layers, 10, /*idle_updates=*/0);
  EXPECT_THAT(all.keys, ElementsAre(2, 3, 4, 8));
  EXPECT_THAT(all.touched, ElementsAre(1, 7, 8, 10));
  EXPECT_THAT(all.rows, ElementsAre(10, 70, 80, 100));
  EXPECT_THAT(all.counted_keys, ElementsAre(0, 1, 9));
  EXPECT_THAT(all.counts, ElementsAre(1, 1, 3));
  EXPECT_THAT(all.counted_touched, ElementsAre(6, 4, 10));
}

TEST(BucketDeltaTest, KeysThatAreIdleAtTheNewestVersionAreLeftOut) {
  // Key 5 had a row that expired; then it was touched, and is counted again.
  const std::vector<BucketRows> layers = {
      WithCounts(Rows({5, 6, 7}, {1, 2, 6}), {1, 2}, {1, 1}, {6, 7}),
      WithCounts(Rows({}, {}), {5}, {1}, {9}),
  };
  const BucketRows some = ApplyChanges(layers, 10, /*idle_updates=*/3);
  EXPECT_THAT(some.keys, IsEmpty());
  EXPECT_THAT(some.rows, IsEmpty());
  EXPECT_THAT(some.counted_keys, ElementsAre(2, 5));
  EXPECT_THAT(some.counts, ElementsAre(1, 1));
}

}  // namespace
}  // namespace shoal
