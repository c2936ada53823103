// Tests that a training step of LOCAL allocates nothing, by counting calls of operator new in this
// binary.
//
// Counted: the thread that runs SyncTrainer (step logic, graph, kernels), the one that reads
// batches ahead, and those of the store and the shard (contributions, update, new values). Not
// counted: threads that talk to the chief, which build messages (reports of steps, heartbeats), and
// memory that libraries take by malloc. The steps are in the middle of an epoch, with plain SGD,
// without checkpoints and evaluations.
//
// oneDNN allocates whenever a primitive is executed, and its interface has no way to avoid it:
// dnnl_primitive_execute (2.6, src/common/primitive.cpp) puts the arguments into an unordered_map,
// one node for each and one for the buckets; scratchpads and memory objects are allocated in
// advance. The test counts these allocations separately, for models with convolutions, and limits
// their number, which depends on what oneDNN reorders for the machine's instructions: with AVX2 it
// makes up to 179, 3056 and 1030 in a step of the three models, with AVX-512 fewer.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

#include "base/allocation_count.h"
#include "base/notification.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/fake_chief.h"
#include "tests/benchmark/local_training.h"
#include "worker/sync_trainer.h"

namespace shoal {
namespace {

constexpr int64_t kExamples = int64_t{1} << 40;  // as LocalTraining's plan

// The steps whose allocations are counted.
struct Counted {
  int first, last;
  int enough() const { return last + 10; }
};

class CallersChief : public FakeChief {
 public:
  absl::Status Heartbeat(const v1::HeartbeatRequest& request,
                         v1::HeartbeatResponse* response) override {
    LeaveOutAllocationsOfThisThread();
    return FakeChief::Heartbeat(request, response);
  }
  absl::Status ReportSteps(const v1::ReportStepsRequest& request,
                           v1::ReportStepsResponse* response) override {
    LeaveOutAllocationsOfThisThread();
    return FakeChief::ReportSteps(request, response);
  }
};

// A data set with the same numbers for every example. It reads the counter whenever a batch is
// requested.
class CountingDataset : public Dataset {
 public:
  CountingDataset(std::vector<FieldSpec> fields, Counted counted)
      : fields_(std::move(fields)), counted_(counted) {}

  int64_t size() const override { return kExamples; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    for (size_t f = 0; f < fields_.size(); ++f) {
      const int64_t elements =
          fields_[f].example.shape.num_elements() * static_cast<int64_t>(indices.size());
      for (int64_t i = 0; i < elements; ++i) {
        if (fields_[f].example.dtype == DataType::kInt32) {
          static_cast<int32_t*>(outputs[f])[i] = static_cast<int32_t>(i % 10);
        } else {
          static_cast<float*>(outputs[f])[i] = 0.01f * static_cast<float>(i % 100);
        }
      }
    }
    const int batch = ++num_batches_;
    if (batch > counted_.first && batch <= counted_.last && NumAllocations() != last_) ++steps_;
    last_ = NumAllocations();
    if (batch == counted_.first) of_library_ = -NumAllocationsOfLibrary();
    if (batch == counted_.last) of_library_ += NumAllocationsOfLibrary();
    if (batch == counted_.enough()) enough_.Notify();
    return absl::OkStatus();
  }

  void WaitForEnough() { enough_.Wait(); }
  // Returns in how many of the counted steps something was allocated.
  int steps_with_allocations() const { return steps_; }
  // Returns the average number of allocations of oneDNN in a step.
  double allocations_of_library() const {
    return static_cast<double>(of_library_) / (counted_.last - counted_.first);
  }

 private:
  const std::vector<FieldSpec> fields_;
  const Counted counted_;
  mutable std::atomic<int> num_batches_{0};
  mutable std::atomic<int64_t> last_{0};
  mutable std::atomic<int> steps_{0};
  mutable std::atomic<int64_t> of_library_{0};
  mutable Notification enough_;
};

v1::RunState State(v1::RunState::Phase phase, uint64_t number) {
  v1::RunState state;
  state.set_number(number);
  state.set_phase(phase);
  state.set_view(1);
  state.set_lineage(1);
  state.add_workers(0);
  state.add_ps_addresses("in this process");
  state.add_ps_incarnations(1);
  state.set_last_step(uint64_t{1} << 30);
  return state;
}

struct Case {
  const char* model;
  uint32_t batch;
  Counted counted;
  double most_of_library;  // allocations of oneDNN in a step
};

class StepAllocationTest : public testing::TestWithParam<Case> {};

TEST_P(StepAllocationTest, AStepAllocatesNothing) {
  ASSERT_TRUE(CountAllocationsOfLibraryApart("libdnnl.so"));
  CallersChief chief;
  LocalTraining::Options options;
  options.model = GetParam().model;
  options.batch_size = GetParam().batch;
  options.chief = chief.client();
  auto training = LocalTraining::Create(options);
  ASSERT_TRUE(training.ok()) << training.status();
  CountingDataset dataset((*training)->fields(), GetParam().counted);
  BatchPlanOptions batches;
  batches.num_examples = kExamples;
  batches.batch_size = GetParam().batch;
  batches.seed = 1;
  const BatchPlan plan = BatchPlan::Create(batches).value();
  TrainerOptions trainer_options{.clock = (*training)->clock(),
                                 .replica = (*training)->replica(),
                                 .store = (*training)->store(),
                                 .chief = chief.client(),
                                 .train = &dataset,
                                 .train_plan = plan,
                                 .test_plan = plan,
                                 .steps = (*training)->steps(),
                                 .identity = [] { return v1::Identity(); }};
  {
    SyncTrainer trainer(trainer_options);
    trainer.OnState(State(v1::RunState::PHASE_TRAINING, 1));
    absl::Status status;
    std::thread thread([&] { status = trainer.Run(); });
    dataset.WaitForEnough();
    trainer.OnState(State(v1::RunState::PHASE_DONE, 2));
    thread.join();
    EXPECT_TRUE(status.ok()) << status;
    (*training)->store()->Shutdown();
  }
  EXPECT_EQ(dataset.steps_with_allocations(), 0)
      << "of " << GetParam().counted.last - GetParam().counted.first << " steps";
  EXPECT_LE(dataset.allocations_of_library(), GetParam().most_of_library);
}

INSTANTIATE_TEST_SUITE_P(Models, StepAllocationTest,
                         testing::Values(Case{"seed_mlp", 16, {50, 250}, 0},
                                         Case{"lenet", 16, {20, 60}, 220},
                                         Case{"mobilenet_v2", 4, {5, 15}, 3700},
                                         Case{"resnet18", 4, {5, 15}, 1300}),
                         [](const auto& info) { return std::string(info.param.model); });

}  // namespace
}  // namespace shoal
