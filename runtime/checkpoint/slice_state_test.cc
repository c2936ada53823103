#include "runtime/checkpoint/slice_state.h"

#include "gtest/gtest.h"

#include "base/status_matchers.h"

namespace shoal {
namespace {

TEST(SliceStateTest, DecodingRevertsEncoding) {
  SavedSliceState state;
  state.version = UINT64_MAX;
  state.value_version = 11;
  EXPECT_EQ(EncodeSliceState(state), "version=18446744073709551615 value_version=11");
  state.version = 12;
  state.applied.resize(3);
  state.applied[0].batches.InsertRange(0, 5);
  state.applied[0].batches.InsertRange(7, 9);
  state.applied[1].epoch = 2;  // nothing: not stored
  state.applied[2].epoch = 3;
  state.applied[2].batches.Insert(0);
  const std::string text = EncodeSliceState(state);
  EXPECT_EQ(text, "version=12 value_version=11 applied=0:0-5,7-9;3:0-1");
  ASSERT_OK_AND_ASSIGN(const SavedSliceState decoded, DecodeSliceState(text));
  EXPECT_EQ(EncodeSliceState(decoded), text);
  EXPECT_EQ(decoded.applied[1].epoch, 3u);
  EXPECT_TRUE(decoded.applied[0].batches.Contains(8));
}

TEST(SliceStateTest, AnythingElseIsRefused) {
  for (const char* text :
       {"", "version=1", "version=1 value_version=", "version=x value_version=1",
        "value_version=1 version=1",
        "version=1 value_version=1 applied=", "version=1 value_version=1 applied=0",
        "version=1 value_version=1 applied=0:5-5", "version=1 value_version=1 applied=0:5-9,7-12",
        "version=1 value_version=1 applied=0:1", "version=1 value_version=1 applied=4294967296:0-1",
        "version=-1 value_version=1", "version=1 value_version=1 applied=0:0-1 more"}) {
    EXPECT_THAT(DecodeSliceState(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  }
}

TEST(SliceStateTest, NamesOfSlicesAreReadBack) {
  for (const SliceName& name : {SliceName{"affine0/w", 3, ""}, SliceName{"b", 0, "momentum"}}) {
    ASSERT_OK_AND_ASSIGN(const SliceName decoded, DecodeSliceName(EncodeSliceName(name)));
    EXPECT_FALSE(decoded < name || name < decoded);
  }
  for (const char* text : {"", "w", "w|", "|1", "w|x", "w|-1", "w|1|", "w|1|m|2", "w|4294967296",
                           "w|01", "w| 1", "w|+1"}) {
    EXPECT_THAT(DecodeSliceName(text), StatusIs(absl::StatusCode::kDataLoss)) << text;
  }
}

}  // namespace
}  // namespace shoal
