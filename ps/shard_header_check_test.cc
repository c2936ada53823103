#include "ps/shard_header_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/shard_writer.h"
#include "runtime/checkpoint/slice_state.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_store_config.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kBuckets = 300;
constexpr uint64_t kDim = 2;

// A table with Adam and admission, and a dense variable of two slices.
std::vector<v1::VariableSpec> Variables() {
  std::vector<v1::VariableSpec> variables(2);
  for (v1::VariableSpec& variable : variables) {
    variable.set_dtype(v1::DATA_TYPE_FLOAT32);
    variable.set_update(v1::UPDATE_KIND_OPTIMIZER);
  }
  variables[0].set_name("item");
  variables[0].add_shape(kDim);
  variables[0].mutable_table()->set_buckets(kBuckets);
  variables[0].mutable_table()->set_min_count(2);
  variables[1].set_name("dense/w");
  variables[1].add_shape(32);
  return variables;
}

std::unique_ptr<PartitionedStore> NewStore(const std::vector<v1::VariableSpec>& variables) {
  const SliceTable table = SliceTable::Create(variables, 64).value();
  std::vector<uint32_t> owned;
  for (uint32_t slice = 0; slice < table.size(); ++slice) owned.push_back(slice);
  v1::RunConfig run;
  run.set_max_steps(10);
  run.mutable_optimizer()->mutable_adam();
  run.mutable_optimizer()->set_learning_rate(0.1);
  StepPlan::Options plan;
  plan.examples_per_epoch = 100;
  plan.batch_examples = 1;
  const SliceStoreOptions options = *SliceStoreOptionsFrom(run, *StepPlan::Create(plan));
  return PartitionedStore::Create(options, variables, table, {owned}).value();
}

// Returns the length of the header of a shard in which all buckets have rows, and each slice has
// every second batch from a million on, so many of them.
uint64_t WriteShard(uint32_t num_ranges) {
  FaultyFileSystem disk;
  ShardWriter writer(disk, {".", 0, 1});
  BucketRows rows;
  rows.keys = rows.counted_keys = {1, 2};
  rows.touched = rows.counts = rows.counted_touched = {1, 1};
  rows.rows.resize(2 * 3 * kDim);
  SavedSliceState state{1000, 1000, {}};
  if (num_ranges > 0) state.applied.resize(1);
  for (uint32_t i = 0; i < num_ranges; ++i) {
    const uint64_t batch = 1000000 + 2 * i;
    state.applied[0].batches.InsertRange(batch, batch + 1);
  }
  for (uint32_t bucket = 0; bucket < kBuckets; ++bucket) {
    writer.AddBucket(
        {"item", bucket, kDim, {{"m", kDim}, {"v", kDim}}, 2, 2, [&] { return &rows; }}, state);
  }
  const std::vector<float> floats(16);
  for (uint32_t slice = 0; slice < 2; ++slice) {
    writer.Add("dense/w", slice, floats, {{"m", floats}, {"v", floats}}, state);
  }
  const std::string file = ReadFile(disk, writer.Finish().value().name()).value();
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  return length;
}

TEST(ShardHeaderCheckTest, TheNeedIsAboutTheHeaderOfAShardWhoseBucketsHaveRows) {
  for (const uint32_t num_async_workers : {0, 128}) {
    SCOPED_TRACE(num_async_workers);
    const ShardHeaderNeed need =
        ComputeShardHeaderNeed(*NewStore(Variables()), Variables(), num_async_workers);
    EXPECT_EQ(need.num_buckets, kBuckets);
    EXPECT_EQ(need.num_slices, 2u);
    EXPECT_GT(need.slice_bytes, 0u);
    const uint64_t written = WriteShard(num_async_workers);
    EXPECT_GE(need.bucket_bytes + need.slice_bytes, written);
    EXPECT_LE(need.bucket_bytes + need.slice_bytes, written + written / 3);
    EXPECT_OK(CheckShardHeader(need));
  }
}

TEST(ShardHeaderCheckTest, TooManyBucketsOrSlicesAreRefusedWithTheRemedy) {
  EXPECT_OK(CheckShardHeader({65536, 60000000, 1000, 40000000}));
  const absl::Status buckets = CheckShardHeader({4 * 65536, 250000000, 10, 3000});
  EXPECT_THAT(buckets, StatusIs(absl::StatusCode::kFailedPrecondition,
                                "this ps has 262144 buckets of tables; the header of its part of a "
                                "checkpoint would have about 250 MB, and readers accept at most "
                                "100 MB: use more ps tasks, or start a new run with fewer "
                                "`buckets` in its tables"));
  EXPECT_THAT(CheckShardHeader({10, 3000, 500000, 150000000}).message(),
              AllOf(HasSubstr("500000 slices"), HasSubstr("a larger cluster.slice_bytes")));
}

// The writer finds what the estimate has missed.
TEST(ShardHeaderCheckTest, AWriterRefusesAShardThatNoReaderTakes) {
  FaultyFileSystem disk;
  ShardWriter writer(disk, {".", 0, 1});
  const std::string name(1 << 20, 'w');
  const float value = 0;
  for (uint32_t slice = 0; slice < 50; ++slice) {
    writer.Add(name, slice, {&value, 1}, {}, {1000, 1000, {}});
  }
  EXPECT_THAT(writer.Finish(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("shard-00000-of-00001.safetensors needs a header of 1048"),
                             HasSubstr("use more ps tasks"), HasSubstr("`buckets`"))));
  EXPECT_THAT(disk.List("."), IsOkAndHolds(IsEmpty()));
}

}  // namespace
}  // namespace shoal
