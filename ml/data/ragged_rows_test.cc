#include "ml/data/ragged_rows.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RaggedRowsTest, KeysOfTheExamplesFollowEachOther) {
  RaggedRows rows;
  EXPECT_EQ(rows.num_examples(), 0);
  EXPECT_THAT(rows.offsets(), ElementsAre(0));
  rows.AddExample({7, -1});
  rows.AddExample({});
  rows.AddKey(9);
  rows.EndExample();
  EXPECT_EQ(rows.num_examples(), 3);
  EXPECT_THAT(rows.keys(), ElementsAre(7, -1, 9));
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(rows.weights(), IsEmpty());
  EXPECT_THAT(rows.keys_of(0), ElementsAre(7, -1));
  EXPECT_THAT(rows.keys_of(1), IsEmpty());
  EXPECT_THAT(rows.keys_of(2), ElementsAre(9));
}

TEST(RaggedRowsTest, EachKeyHasItsWeight) {
  RaggedRows rows(/*has_weights=*/true);
  rows.AddExample({7, 8}, {0.5f, 2});
  rows.AddKey(9, 3);
  rows.AddKey(10);
  rows.EndExample();
  EXPECT_THAT(rows.weights(), ElementsAre(0.5f, 2, 3, 1));
  EXPECT_THAT(rows.weights_of(1), ElementsAre(3, 1));
}

TEST(RaggedRowsTest, AppendedExamplesFollowThoseBefore) {
  RaggedRows rows(true), more(true);
  rows.AddExample({1}, {10});
  more.AddExample({}, {});
  more.AddExample({2, 3}, {20, 30});
  rows.Append(more);
  rows.Append(RaggedRows(true));
  EXPECT_THAT(rows.keys(), ElementsAre(1, 2, 3));
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 1, 1, 3));
  EXPECT_THAT(rows.weights(), ElementsAre(10, 20, 30));
}

TEST(RaggedRowsTest, ClearRemovesAlsoAnExampleThatWasNotCompleted) {
  RaggedRows rows(true);
  rows.AddExample({1}, {10});
  rows.AddKey(2);
  rows.Clear();
  EXPECT_EQ(rows.num_examples(), 0);
  rows.AddExample({3}, {30});
  EXPECT_THAT(rows.keys(), ElementsAre(3));
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 1));
  EXPECT_THAT(rows.weights(), ElementsAre(30));
}

}  // namespace
}  // namespace shoal
