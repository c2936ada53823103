// Counts every allocation of the process.
#include <cstdint>

#include "gtest/gtest.h"

#include "base/allocation_count.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_testing.h"

namespace shoal {
namespace {

// Both positions to both slices, out of order, with a reply held over the step.
void RunStep(StoreUnderTest& t, uint64_t step, SlicePush* push, PullAnswer* held) {
  for (uint32_t position : {1, 0}) {
    push->batch = t.plan.BatchAt(step, position);
    push->step = step;
    push->position = position;
    push->examples = 1;
    for (push->slice = 0; push->slice < 2; ++push->slice) {
      ASSERT_EQ(t.store->Push(*push), PushOutcome::kAccepted);
      *held = t.store->TryPull(push->slice, step);
    }
  }
  t.store->TakeEvents(&t.events);
}

TEST(SliceStoreAllocationTest, ASteadyStateDoesNotAllocate) {
  SliceStoreOptions options;
  options.update.optimizer.kind = OptimizerKind::kAdam;
  options.update.moving_average_decay = 0.9;
  StoreUnderTest t({SpecOf("v", 32)}, options);
  const std::vector<float> data(16, 0.5f);
  SlicePush push;
  push.data = data.data();
  push.bytes = data.size() * sizeof(float);
  PullAnswer held;
  uint64_t step = 0;
  for (; step < 10; ++step) RunStep(t, step, &push, &held);
  const int64_t before = NumAllocations();
  for (; step < 60; ++step) RunStep(t, step, &push, &held);
  EXPECT_EQ(NumAllocations() - before, 0);
}

// A ps may have hundreds of buckets, and the values of a row up to 4096 floats.
TEST(SliceStoreAllocationTest, ABucketWithoutRowsTakesLittleMemory) {
  const auto bytes_with = [](uint32_t buckets) {
    v1::VariableSpec item = SpecOf("item", 4096);
    item.mutable_table()->set_buckets(buckets);
    item.mutable_table()->mutable_optimizer()->mutable_adam();
    const int64_t before = NumAllocatedBytes();
    const StoreUnderTest t({SpecOf("v", 1), item});
    return NumAllocatedBytes() - before;
  };
  const int64_t of_one = bytes_with(1);
  EXPECT_LT(bytes_with(65) - of_one, 64 * (1 << 17));
}

}  // namespace
}  // namespace shoal
