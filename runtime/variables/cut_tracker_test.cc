#include "runtime/variables/cut_tracker.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(CutTrackerTest, ACutIsThroughWithItsLastSlice) {
  CutTracker cuts;
  cuts.Reset(2);
  cuts.Ask(5);
  EXPECT_TRUE(cuts.IsAsked(5));
  EXPECT_FALSE(cuts.IsAsked(4));
  EXPECT_FALSE(cuts.Count(5));
  EXPECT_FALSE(cuts.Count(8)) << "cuts overlap: a slice may be ahead";
  EXPECT_TRUE(cuts.IsAsked(5)) << "until the last slice has passed";
  EXPECT_TRUE(cuts.Count(5));
  EXPECT_FALSE(cuts.IsAsked(5));
  EXPECT_TRUE(cuts.Count(8));
}

TEST(CutTrackerTest, SlicesThatAreAtTheVersionAreCutForItsFirstRequestOnly) {
  CutTracker cuts;
  cuts.Reset(1);
  EXPECT_TRUE(cuts.Ask(5));
  EXPECT_FALSE(cuts.Ask(5));
  EXPECT_TRUE(cuts.Count(5));
  EXPECT_FALSE(cuts.Ask(5)) << "all slices have been cut there";
}

TEST(CutTrackerTest, ANewLineageForgetsThem) {
  CutTracker cuts;
  cuts.Reset(2);
  cuts.Ask(5);
  cuts.Count(3);
  cuts.Reset(2);
  EXPECT_FALSE(cuts.IsAsked(5));
  EXPECT_FALSE(cuts.Count(3));
}

}  // namespace
}  // namespace shoal
