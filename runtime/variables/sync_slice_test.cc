#include "runtime/variables/sync_slice.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

using Arrival = SyncSlice::Arrival;
using Value = SyncSlice::Value;

SyncSlice At(uint64_t version, uint32_t positions) {
  SyncSlice slice(4);
  slice.Reset(version, version, positions);
  return slice;
}

TEST(SyncSliceTest, SortsArrivalsByTurn) {
  SyncSlice slice = At(5, 3);
  EXPECT_EQ(slice.Classify(4, 0), Arrival::kDuplicate);
  EXPECT_EQ(slice.Classify(6, 0), Arrival::kAhead);
  EXPECT_EQ(slice.Classify(5, 0), Arrival::kNext);
  EXPECT_EQ(slice.Classify(5, 1), Arrival::kLater);
  slice.Keep(1);
  EXPECT_EQ(slice.Classify(5, 1), Arrival::kDuplicate);
  slice.AddNext(10);
  EXPECT_EQ(slice.Classify(5, 0), Arrival::kDuplicate);
  EXPECT_TRUE(slice.HasArrived(slice.next_position()));
  slice.AddNext(10);
  EXPECT_EQ(slice.Classify(5, 2), Arrival::kNext);
  slice.PassOverNext();
  EXPECT_TRUE(slice.AllThrough());
  EXPECT_EQ(slice.num_added(), 2u);
  EXPECT_EQ(slice.examples(), 20u);
}

TEST(SyncSliceTest, KeepsExactlyThePreviousValue) {
  SyncSlice slice = At(5, 1);
  EXPECT_EQ(slice.Find(4), Value::kGone);
  EXPECT_EQ(slice.Find(5), Value::kCurrent);
  EXPECT_EQ(slice.Find(6), Value::kNotYet);
  slice.AddNext(1);
  slice.Advance(true, 1);
  EXPECT_EQ(slice.Find(5), Value::kPrevious);
  EXPECT_EQ(slice.Find(6), Value::kCurrent);
  slice.AddNext(1);
  slice.Advance(true, 1);
  EXPECT_EQ(slice.Find(5), Value::kGone);
  EXPECT_EQ(slice.Find(6), Value::kPrevious);
  EXPECT_EQ(slice.Find(7), Value::kCurrent);
}

TEST(SyncSliceTest, AValueIsGoodThroughSkippedSteps) {
  SyncSlice slice = At(0, 1);
  slice.Advance(true, 1);   // 1
  slice.Advance(false, 1);  // 2: skipped
  slice.Advance(false, 1);  // 3: skipped
  slice.Advance(true, 1);   // 4
  EXPECT_EQ(slice.version(), 4u);
  EXPECT_EQ(slice.Find(0), Value::kGone);
  for (uint64_t v : {1, 2, 3}) EXPECT_EQ(slice.Find(v), Value::kPrevious);
  EXPECT_EQ(slice.Find(4), Value::kCurrent);
  slice.Advance(false, 2);
  EXPECT_EQ(slice.Find(3), Value::kPrevious);
  EXPECT_EQ(slice.Find(5), Value::kCurrent);
  EXPECT_EQ(slice.value_version(), 4u);
}

TEST(SyncSliceTest, HasContributionsThatWereAddedOrKeptOrAreOlder) {
  SyncSlice slice = At(3, 3);
  EXPECT_TRUE(slice.Has(2, 1));
  EXPECT_FALSE(slice.Has(3, 1));
  EXPECT_FALSE(slice.Has(4, 1));
  slice.Keep(1);
  EXPECT_TRUE(slice.Has(3, 1));
}

}  // namespace
}  // namespace shoal
