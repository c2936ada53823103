#include "ps/pulled_rows.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "proto/v1/bulk.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/scratch_pool.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/payload_reader.h"
#include "runtime/variables/variable_store.h"

namespace shoal {
namespace {

constexpr int64_t kDim = 3;

SliceTable Table() {
  v1::VariableSpec spec;
  spec.set_name("item");
  spec.add_shape(kDim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  spec.mutable_table()->set_buckets(2);
  return SliceTable::Create({spec}, 64).value();
}

class PulledRowsTest : public testing::Test {
 protected:
  // Asks for the keys 0 to `num_keys` - 1.
  absl::Status Take(uint64_t num_keys, PulledRows* pulled, std::vector<RowPull>* rows) {
    v1::ExchangeRequest request;
    std::vector<uint64_t> keys;
    for (const uint32_t bucket : {0, 1}) {
      const size_t before = keys.size();
      for (uint64_t key = 0; key < num_keys; ++key) {
        if (table_.BucketOf(0, key) == bucket) keys.push_back(key);
      }
      request.add_pulls(bucket);
      request.add_pull_keys(static_cast<uint32_t>(keys.size() - before));
    }
    PayloadReader payload;
    payload.Append(keys.data(), keys.size() * sizeof(uint64_t));
    return pulled->Take(request, table_, 1 << 20, /*with_checksums=*/false, &payload, rows);
  }

  const SliceTable table_ = Table();
  ScratchPool for_keys_{2};
  ScratchPool for_values_{2};
};

TEST_F(PulledRowsTest, ACallThatWaitsHasMemoryForItsKeysOnly) {
  for_keys_.Give(std::vector<char>(16));
  for_values_.Give(std::vector<char>(100));
  PulledRows pulled(&for_keys_, &for_values_);
  std::vector<RowPull> rows;
  ASSERT_EQ(Take(1000, &pulled, &rows), absl::OkStatus());
  EXPECT_EQ(for_keys_.kept_bytes(), 0u);
  EXPECT_EQ(for_values_.kept_bytes(), 100u) << "the values were allocated before they are read";
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].values, nullptr);
  EXPECT_EQ(rows[1].values, nullptr);

  pulled.Allocate(&rows);
  EXPECT_EQ(for_values_.kept_bytes(), 0u);
  EXPECT_EQ(rows[1].values, rows[0].values + kDim * rows[0].num_keys);
  for (const RowPull& row : rows) {
    for (uint32_t k = 0; k + 1 < row.num_keys; ++k) EXPECT_LT(row.keys[k], row.keys[k + 1]);
    for (uint32_t i = 0; i < kDim * row.num_keys; ++i) row.values[i] = 1;
  }

  pulled.Release();
  EXPECT_GE(for_keys_.kept_bytes(), 1000 * sizeof(uint64_t));
  EXPECT_GE(for_values_.kept_bytes(), 1000 * kDim * sizeof(float));
}

TEST_F(PulledRowsTest, ACallOfFewRowsAfterOneOfManyKeepsItsMemoryOnlyAsLongAsItLasts) {
  {
    PulledRows many(&for_keys_, &for_values_);
    PulledRows few(&for_keys_, &for_values_);
    std::vector<RowPull> rows;
    ASSERT_EQ(Take(1000, &many, &rows), absl::OkStatus());
    many.Allocate(&rows);
    many.Release();
    ASSERT_EQ(Take(10, &few, &rows), absl::OkStatus());
    few.Allocate(&rows);
    EXPECT_EQ(for_values_.kept_bytes(), 0u);
  }
  EXPECT_GT(for_values_.kept_bytes(), 0u) << "the destructor gives the memory back";
}

}  // namespace
}  // namespace shoal
