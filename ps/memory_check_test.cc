#include "ps/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_store_config.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMebibyte = 1 << 20;

// 80 MiB of values in slices of 4 MiB.
std::unique_ptr<PartitionedStore> NewStore(const v1::RunConfig& run) {
  v1::VariableSpec variable;
  variable.set_name("w");
  variable.add_shape(20 << 20);
  variable.set_dtype(v1::DATA_TYPE_FLOAT32);
  variable.set_update(v1::UPDATE_KIND_OPTIMIZER);
  const std::vector<v1::VariableSpec> variables = {variable};
  const SliceTable table = std::move(SliceTable::Create(variables, 4 << 20).value());
  std::vector<uint32_t> owned;
  for (uint32_t slice = 0; slice < table.size(); ++slice) owned.push_back(slice);
  StepPlan::Options plan;
  plan.examples_per_epoch = 100;
  plan.batch_examples = 1;
  const SliceStoreOptions options = *SliceStoreOptionsFrom(run, *StepPlan::Create(plan));
  return std::make_unique<PartitionedStore>(
      std::move(SliceStore::Create(options, variables, table, owned).value()));
}

v1::RunConfig Sgd() {
  v1::RunConfig run;
  run.set_max_steps(10);
  run.mutable_optimizer()->mutable_sgd();
  run.mutable_optimizer()->set_learning_rate(0.1);
  return run;
}

MemoryLimit Machine(uint64_t mebibytes, uint64_t available) {
  return {mebibytes * kMebibyte, "the machine", available * kMebibyte};
}

TEST(MemoryCheckTest, TheLowestLimitHoldsAndTheOthersFollowFromIt) {
  const MemoryBounds machine = ComputeMemoryBounds(0, Machine(16384, 8192));
  EXPECT_EQ(machine.limit.set_by, "the machine");
  EXPECT_EQ(machine.messages, 4096 * kMebibyte);
  EXPECT_EQ(machine.staging, 256 * kMebibyte);
  const MemoryBounds lower = ComputeMemoryBounds(1024 * kMebibyte, Machine(16384, 8192));
  EXPECT_EQ(lower.limit.set_by, "cluster.ps_memory");
  EXPECT_EQ(lower.limit.bytes, 1024 * kMebibyte);
  EXPECT_EQ(lower.limit.available, 1024 * kMebibyte);
  EXPECT_EQ(lower.messages, 256 * kMebibyte);
  EXPECT_EQ(lower.staging, 128 * kMebibyte);
  EXPECT_EQ(ComputeMemoryBounds(32768 * kMebibyte, Machine(16384, 8192)).limit.set_by,
            "the machine");
}

TEST(MemoryCheckTest, EveryPartIsCounted) {
  const MemoryBounds bounds = ComputeMemoryBounds(0, Machine(65536, 65536));
  const MemoryNeed sgd = EstimateMemory(*NewStore(Sgd()), {true, 4, 4}, bounds);
  EXPECT_EQ(sgd.values, 240 * kMebibyte);
  EXPECT_EQ(sgd.sums, 80 * kMebibyte);
  EXPECT_EQ(sgd.slots, 0u);
  EXPECT_EQ(sgd.snapshot, 80 * kMebibyte);
  EXPECT_EQ(sgd.staging, 240 * kMebibyte);
  EXPECT_EQ(sgd.messages, 256 * kMebibyte);
  EXPECT_EQ(sgd.copies, 36 * kMebibyte);  // Nine slices of 4 MiB.
  EXPECT_EQ(sgd.total(), (240 + 80 + 80 + 240 + 256 + 36 + 32) * kMebibyte);

  v1::RunConfig adam = Sgd();
  adam.mutable_optimizer()->mutable_adam();
  adam.mutable_optimizer()->set_moving_average_decay(0.9);
  const std::unique_ptr<PartitionedStore> store = NewStore(adam);
  const MemoryNeed of_adam = EstimateMemory(*store, {true, 1, 1}, bounds);
  EXPECT_EQ(of_adam.slots, 240 * kMebibyte);
  EXPECT_EQ(of_adam.snapshot, 320 * kMebibyte);
  EXPECT_EQ(of_adam.staging, 0u);
  EXPECT_EQ(of_adam.messages, 64 * kMebibyte);
  const MemoryNeed asynchronous = EstimateMemory(*store, {false, 1, 100}, bounds);
  EXPECT_EQ(asynchronous.sums, 0u);
  EXPECT_EQ(asynchronous.staging, 0u);
  EXPECT_EQ(asynchronous.messages, 6400 * kMebibyte);
}

TEST(MemoryCheckTest, MessagesAndContributionsStayWithinTheirBounds) {
  const MemoryBounds bounds = ComputeMemoryBounds(1024 * kMebibyte, Machine(65536, 65536));
  const MemoryNeed need = EstimateMemory(*NewStore(Sgd()), {true, 64, 64}, bounds);
  EXPECT_EQ(need.staging, 128 * kMebibyte);
  EXPECT_EQ(need.messages, 256 * kMebibyte);
}

TEST(MemoryCheckTest, AShardThatDoesNotFitIsRefusedWithThePartsAndTheSourceOfTheLimit) {
  MemoryNeed need;
  need.values = 240 * kMebibyte;
  need.messages = 60 * kMebibyte;
  EXPECT_TRUE(CheckMemory(need, ComputeMemoryBounds(0, Machine(300, 300))).ok());
  const absl::Status never =
      CheckMemory(need, ComputeMemoryBounds(299 * kMebibyte, Machine(1000, 1000)));
  EXPECT_EQ(never.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(never.message(), HasSubstr("300 MiB (three versions of the values 240 MiB"));
  EXPECT_THAT(never.message(), HasSubstr("messages 60 MiB"));
  EXPECT_THAT(never.message(), HasSubstr("cluster.ps_memory allows 299 MiB"));
  const absl::Status not_now = CheckMemory(need, ComputeMemoryBounds(0, Machine(1000, 299)));
  EXPECT_EQ(not_now.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(not_now.message(), HasSubstr("only 299 MiB are free now"));
}

}  // namespace
}  // namespace shoal
