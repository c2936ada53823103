#include "runtime/plan/slice_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

using testing::HasSubstr;

v1::VariableSpec Spec(const std::string& name, const std::vector<int64_t>& shape,
                      v1::UpdateKind update = v1::UPDATE_KIND_OPTIMIZER) {
  v1::VariableSpec spec;
  spec.set_name(name);
  for (int64_t dim : shape) spec.add_shape(dim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(update);
  return spec;
}

TEST(SliceTableTest, SlicesCoverEveryElementOnceInOrder) {
  const std::vector<v1::VariableSpec> specs = {Spec("a", {7, 5}), Spec("b", {}), Spec("c", {40}),
                                               Spec("d", {3, 50}), Spec("e", {2, 4, 2})};
  for (uint64_t bytes : {64, 128, 4096}) {
    const SliceTable table = *SliceTable::Create(specs, bytes);
    uint32_t slice = 0;
    for (uint32_t v = 0; v < table.num_variables(); ++v) {
      EXPECT_EQ(table.first_slice_of(v), slice);
      uint64_t next = 0;
      for (; slice < table.first_slice_of(v + 1); ++slice) {
        EXPECT_EQ(table[slice].variable, v);
        EXPECT_EQ(table[slice].first_element, next);
        ASSERT_GT(table[slice].num_elements, 0u);
        EXPECT_LE(table[slice].num_bytes(), bytes);
        next += table[slice].num_elements;
      }
      EXPECT_EQ(next, table.elements_of(v));
    }
    EXPECT_EQ(slice, table.size());
  }
}

TEST(SliceTableTest, CutsBetweenRowsAndLongRowsByThemselves) {
  const SliceTable table =
      *SliceTable::Create(std::vector<v1::VariableSpec>{Spec("a", {7, 5}), Spec("b", {2, 20})}, 64);
  std::vector<uint64_t> sizes;
  for (const Slice& slice : table.slices()) sizes.push_back(slice.num_elements);
  EXPECT_THAT(sizes, testing::ElementsAre(15, 15, 5, 16, 4, 16, 4));
}

TEST(SliceTableTest, ReportsTravelWithTheFirstSliceThatHasVersions) {
  const SliceTable table = *SliceTable::Create(
      std::vector<v1::VariableSpec>{Spec("a", {20}, v1::UPDATE_KIND_NONE), Spec("b", {2})}, 64);
  EXPECT_EQ(table.report_slice(), 2u);
  EXPECT_FALSE(table.slice_is_versioned(1));
  EXPECT_TRUE(table.slice_is_versioned(2));
}

std::string RefusalOf(const std::vector<v1::VariableSpec>& specs, uint64_t bytes = 64) {
  return std::string(SliceTable::Create(specs, bytes).status().message());
}

TEST(SliceTableTest, BadSpecsAreRefusedByName) {
  EXPECT_THAT(RefusalOf({Spec("a b", {1})}), HasSubstr("\"a b\": a name must be"));
  EXPECT_THAT(RefusalOf({Spec("", {1})}), HasSubstr("a name must be"));
  EXPECT_THAT(RefusalOf({Spec("a", {1}), Spec("a", {2})}), HasSubstr("declared twice"));
  EXPECT_THAT(RefusalOf({Spec("a", {0})}), HasSubstr("dimension of 0"));
  EXPECT_THAT(RefusalOf({Spec("a", {int64_t{1} << 32, int64_t{1} << 32})}), HasSubstr("2^40"));
  EXPECT_THAT(RefusalOf({Spec("a", {1, 1, 1, 1, 1, 1, 1, 1, 1})}), HasSubstr("8 dimensions"));
  EXPECT_THAT(RefusalOf({Spec("a", {1}, v1::UPDATE_KIND_UNSPECIFIED)}), HasSubstr("UpdateKind"));
  EXPECT_THAT(RefusalOf({Spec("a", {1})}, 100), HasSubstr("slice_bytes is 100"));
  EXPECT_THAT(RefusalOf({Spec("a", {1})}, 0), HasSubstr("slice_bytes is 0"));
  v1::VariableSpec average = Spec("a", {1}, v1::UPDATE_KIND_MOVING_AVERAGE);
  average.set_decay(1.5);
  EXPECT_THAT(RefusalOf({average}), HasSubstr("decay is 1.5"));
}

}  // namespace
}  // namespace shoal
