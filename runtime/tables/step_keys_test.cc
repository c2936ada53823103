#include "runtime/tables/step_keys.h"

#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(StepKeysTest, FindsTheKeysOfOneContribution) {
  StepKeys keys;
  keys.Assign({7, 0, 9});
  EXPECT_EQ(keys.all(), (std::vector<uint64_t>{7, 0, 9}));
  EXPECT_EQ(keys.Find(0), 1u);
  EXPECT_EQ(keys.Find(9), 2u);
  EXPECT_EQ(keys.Find(8), std::nullopt);
}

TEST(StepKeysTest, AddsTheKeysThatLaterContributionsTouchFirst) {
  StepKeys keys;
  keys.Assign({3, 5});
  EXPECT_EQ(keys.FindOrAdd(5), 1u);
  EXPECT_EQ(keys.FindOrAdd(4), 2u);
  EXPECT_EQ(keys.FindOrAdd(4), 2u);
  EXPECT_EQ(keys.FindOrAdd(3), 0u);
  EXPECT_EQ(keys.size(), 3u);
}

TEST(StepKeysTest, TakesMemoryForAnIndexOnlyWhenAKeyIsLookedUp) {
  StepKeys keys;
  const std::vector<uint64_t> some(100, 0);
  keys.Assign(some);
  const uint64_t bytes = keys.bytes();
  EXPECT_EQ(bytes, keys.all().capacity() * sizeof(uint64_t));
  keys.Assign({1, 2});
  keys.Find(1);
  EXPECT_GT(keys.bytes(), bytes);
}

TEST(StepKeysTest, KnowsNoKeyOfTheStepBefore) {
  for (const size_t most_kept : {0, 1000}) {
    StepKeys keys;
    keys.Assign({1, 2, 3});
    keys.FindOrAdd(4);
    keys.Clear(most_kept);
    EXPECT_TRUE(keys.empty());
    EXPECT_EQ(keys.Find(2), std::nullopt);
    EXPECT_EQ(keys.FindOrAdd(4), 0u);
    keys.Assign({2});
    EXPECT_EQ(keys.Find(4), std::nullopt);
    EXPECT_EQ(keys.Find(2), 0u);
    if (most_kept == 0) {
      keys.Clear(0);
      EXPECT_EQ(keys.bytes(), 0u);
    }
  }
}

}  // namespace
}  // namespace shoal
