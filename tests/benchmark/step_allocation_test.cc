// A training step of LOCAL allocates nothing: operator new is counted in this binary.
//
// Counted: the thread that runs SyncTrainer (step logic, graph, kernels), the one that reads
// batches ahead, and those of the store and the shard (contributions, update, new values). Not
// counted: threads that talk to the chief, which build messages (reports of steps, heartbeats), and
// memory that libraries take by malloc. The steps are in the middle of an epoch, with plain SGD,
// without checkpoints and evaluations. Of the models the MLP: oneDNN's primitives, which compute
// convolutions that are not our own, allocate whenever they are executed (in the CNN all that a
// step does).
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
constexpr uint32_t kBatch = 16;
constexpr int kFirstCounted = 50, kLastCounted = 250, kEnough = 260;

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

// The same numbers for every example; looks at the counter as batches are asked for.
class CountingDataset : public Dataset {
 public:
  explicit CountingDataset(std::vector<FieldSpec> fields) : fields_(std::move(fields)) {}

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
    if (batch > kFirstCounted && batch <= kLastCounted && NumAllocations() != last_) ++steps_;
    last_ = NumAllocations();
    if (batch == kEnough) enough_.Notify();
    return absl::OkStatus();
  }

  void WaitForEnough() { enough_.Wait(); }
  // Of the counted ones: in how many something was allocated.
  int steps_with_allocations() const { return steps_; }

 private:
  const std::vector<FieldSpec> fields_;
  mutable std::atomic<int> num_batches_{0};
  mutable std::atomic<int64_t> last_{0};
  mutable std::atomic<int> steps_{0};
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

TEST(StepAllocationTest, AStepAllocatesNothing) {
  CallersChief chief;
  LocalTraining::Options options;
  options.batch_size = kBatch;
  options.chief = &chief;
  auto training = LocalTraining::Create(options);
  ASSERT_TRUE(training.ok()) << training.status();
  CountingDataset dataset((*training)->fields());
  BatchPlanOptions batches;
  batches.num_examples = kExamples;
  batches.batch_size = kBatch;
  batches.seed = 1;
  const BatchPlan plan = BatchPlan::Create(batches).value();
  TrainerOptions trainer_options{.clock = (*training)->clock(),
                                 .replica = (*training)->replica(),
                                 .store = (*training)->store(),
                                 .chief = &chief,
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
      << "of " << kLastCounted - kFirstCounted << " steps";
}

}  // namespace
}  // namespace shoal
