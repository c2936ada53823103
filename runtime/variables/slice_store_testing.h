#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_STORE_TESTING_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_STORE_TESTING_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "proto/v1/variable.pb.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

inline v1::VariableSpec SpecOf(const std::string& name, int64_t elements,
                               v1::UpdateKind update = v1::UPDATE_KIND_OPTIMIZER) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(elements);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_update(update);
  return spec;
}

// Reads the private state of a store.
class SliceStorePeer {
 public:
  // Returns the free bytes of the memory for contributions out of order.
  static uint64_t FreeStagingBytes(const SliceStore& store) { return store.staging_.free_bytes(); }
};

// Fills every slice with one number.
class ConstantSource : public SliceSource {
 public:
  explicit ConstantSource(float value) : value_(value) {}
  absl::Status Fill(uint32_t, Contents* contents) override {
    for (float& x : contents->value) x = value_;
    contents->slots_follow_value = true;
    return absl::OkStatus();
  }

 private:
  const float value_;
};

// A store that owns all slices of some variables (at most 16 floats each), with short functions to
// use it. The default is SGD with learning rate 1 on zeros, and two batches of one example per
// step.
struct StoreUnderTest {
  explicit StoreUnderTest(std::vector<v1::VariableSpec> variables, SliceStoreOptions wanted = {},
                          StepPlan::Options steps = {0, 0, 1000, 1, 2})
      : specs(std::move(variables)), options(std::move(wanted)), plan(*StepPlan::Create(steps)) {
    double& learning_rate = options.update.schedule.learning_rate;
    if (std::isnan(learning_rate)) learning_rate = 1;
    const SliceTable table = *SliceTable::Create(specs, 64);
    std::vector<uint32_t> owned(table.size());
    std::iota(owned.begin(), owned.end(), 0u);
    store = *SliceStore::Create(options, specs, table, owned);
    Load(0);
  }

  void Load(uint64_t version, std::vector<BatchKey> skipped = {}) {
    ConstantSource zeros(0);
    EXPECT_TRUE(store->Load({++lineage, version, plan, std::move(skipped)}, zeros).ok());
    store->TakeEvents(&events);
  }

  // Pushes a contribution with all elements equal to `g`.
  PushOutcome Push(uint32_t slice, uint64_t step, uint32_t position, float g,
                   const BatchReport* report = nullptr) {
    return PushBatch(slice, plan.BatchAt(step, position), step, position, 0, g, report);
  }
  PushOutcome PushAsync(uint32_t slice, const BatchKey& batch, uint64_t pulled_version, float g) {
    return PushBatch(slice, batch, 0, 0, pulled_version, g, nullptr);
  }
  PushOutcome PushBatch(uint32_t slice, const BatchKey& batch, uint64_t step, uint32_t position,
                        uint64_t pulled_version, float g, const BatchReport* report) {
    const std::vector<float> data(store->table()[slice].num_elements, g);
    SlicePush push;
    push.slice = slice;
    push.batch = batch;
    push.step = step;
    push.position = position;
    push.examples = plan.ExamplesIn(batch);
    push.pulled_version = pulled_version;
    push.data = data.data();
    push.bytes = data.size() * sizeof(float);
    push.report = report;
    return store->Push(push);
  }

  // Returns the slice's first element at the version; expects that the version is served.
  float ValueAt(uint32_t slice, uint64_t version) {
    const PullAnswer answer = store->TryPull(slice, version);
    EXPECT_EQ(answer.state, PullAnswer::kValue);
    return answer.state == PullAnswer::kValue ? answer.value->data()[0] : -1e9f;
  }
  const SliceStoreEvents& TakeEvents() {
    store->TakeEvents(&events);
    return events;
  }

  std::vector<v1::VariableSpec> specs;
  SliceStoreOptions options;
  StepPlan plan;
  uint64_t lineage = 0;
  std::unique_ptr<SliceStore> store;
  SliceStoreEvents events;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_STORE_TESTING_H_
