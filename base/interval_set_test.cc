#include "base/interval_set.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using Range = IntervalSet::Range;

IntervalSet Of(std::initializer_list<Range> ranges) {
  IntervalSet set;
  for (const Range& range : ranges) set.InsertRange(range.begin, range.end);
  return set;
}

TEST(IntervalSetTest, AddedIndicesJoinToRanges) {
  IntervalSet set;
  EXPECT_TRUE(set.Insert(5));
  EXPECT_TRUE(set.Insert(7));
  EXPECT_THAT(set.ranges(), ElementsAre(Range{5, 6}, Range{7, 8}));
  EXPECT_TRUE(set.Insert(6));
  EXPECT_THAT(set.ranges(), ElementsAre(Range{5, 8}));
  EXPECT_FALSE(set.Insert(6));
  EXPECT_EQ(set.Count(), 3u);
}

TEST(IntervalSetTest, ARangeSwallowsWhatItOverlaps) {
  IntervalSet set = Of({{0, 2}, {4, 6}, {8, 10}, {20, 21}});
  set.InsertRange(5, 9);
  EXPECT_THAT(set.ranges(), ElementsAre(Range{0, 2}, Range{4, 10}, Range{20, 21}));
  EXPECT_EQ(set.Count(), 9u);
}

TEST(IntervalSetTest, RemoveSplitsARange) {
  IntervalSet set = Of({{0, 5}});
  EXPECT_TRUE(set.Remove(2));
  EXPECT_FALSE(set.Remove(2));
  EXPECT_THAT(set.ranges(), ElementsAre(Range{0, 2}, Range{3, 5}));
  EXPECT_EQ(set.Count(), 4u);
}

TEST(IntervalSetTest, MissingIsWhatIsLeftOfTheRange) {
  const IntervalSet set = Of({{2, 4}, {6, 7}});
  EXPECT_THAT(set.Missing(0, 10).ranges(), ElementsAre(Range{0, 2}, Range{4, 6}, Range{7, 10}));
  EXPECT_TRUE(set.Missing(2, 4).empty());
  EXPECT_THAT(set.Missing(3, 5).ranges(), ElementsAre(Range{4, 5}));
}

TEST(IntervalSetTest, IntersectionIsWhatBothHave) {
  EXPECT_THAT(IntervalSet::Intersection(Of({{0, 5}, {7, 9}}), Of({{3, 8}})).ranges(),
              ElementsAre(Range{3, 5}, Range{7, 8}));
}

TEST(IntervalSetTest, DifferenceIsWhatOnlyTheFirstHas) {
  EXPECT_THAT(IntervalSet::Difference(Of({{0, 5}, {7, 9}}), Of({{1, 2}, {4, 8}})).ranges(),
              ElementsAre(Range{0, 1}, Range{2, 4}, Range{8, 9}));
}

TEST(IntervalSetTest, DamagedRangesAreRefused) {
  EXPECT_TRUE(IntervalSet::FromRanges({{0, 2}, {3, 4}}).ok());
  EXPECT_FALSE(IntervalSet::FromRanges({{0, 2}, {2, 4}}).ok());
  EXPECT_FALSE(IntervalSet::FromRanges({{3, 4}, {0, 2}}).ok());
  EXPECT_FALSE(IntervalSet::FromRanges({{3, 3}}).ok());
}

TEST(IntervalSetTest, BehavesAsASetOfNumbersUnderRandomChanges) {
  IntervalSet set;
  std::set<uint64_t> expected;
  for (uint64_t i = 0; i < 20000; ++i) {
    const uint64_t index = RandomBelow(/*key=*/7, 2 * i, 64);
    if (RandomBelow(7, 2 * i + 1, 2) == 0) {
      ASSERT_EQ(set.Insert(index), expected.insert(index).second);
    } else {
      ASSERT_EQ(set.Remove(index), expected.erase(index) == 1);
    }
    ASSERT_EQ(set.Count(), expected.size());
    ASSERT_EQ(set.Missing(0, 64).Count(), 64 - expected.size());
    ASSERT_TRUE(IntervalSet::FromRanges(set.ranges()).ok());
  }
  for (uint64_t index = 0; index < 64; ++index) {
    EXPECT_EQ(set.Contains(index), expected.count(index) == 1);
  }
}

}  // namespace
}  // namespace shoal
