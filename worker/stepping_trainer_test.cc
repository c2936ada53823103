#include "worker/stepping_trainer.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/variables/exchange_groups.h"
#include "runtime/variables/variable_store.h"
#include "worker/async_trainer.h"
#include "worker/replica/replica.h"
#include "worker/replica/replica_program.h"
#include "worker/sync_trainer.h"
#include "worker/trainer.h"

namespace shoal {
namespace {

// A program of one variable whose process ends while the worker waits.
class EndingProgram : public ReplicaProgram {
 public:
  EndingProgram() {
    v1::VariableSpec& spec = variables_.emplace_back();
    spec.set_name("w");
    spec.add_shape(2);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  }

  const std::vector<v1::VariableSpec>& variables() const override { return variables_; }
  bool contributes(uint32_t /*variable*/) const override { return true; }
  absl::Status Prepare(int64_t /*num_examples*/) override { return absl::OkStatus(); }
  absl::Status Train(const TrainArguments& /*arguments*/, BatchResult* /*result*/,
                     OnFinal /*on_final*/, absl::FunctionRef<void()> /*on_result*/) override {
    return absl::InternalError("nothing is to be computed");
  }
  absl::Status Evaluate(const LoadedBatch& /*batch*/, absl::Span<const float* const> /*parameters*/,
                        absl::Span<const uint64_t> /*versions*/, BatchResult* /*result*/) override {
    return absl::InternalError("nothing is to be computed");
  }
  std::string compute_fingerprint() const override { return "ending"; }
  void ReportProgressTo(std::function<void()> report) override { on_progress = std::move(report); }
  bool may_end() const override { return true; }
  bool HasEnded() override { return ++checks >= 3; }
  absl::Status CheckIdle() override {
    // The first call finds what the program sent before it ended.
    return ++reads < 2 ? absl::OkStatus() : absl::UnavailableError("killed by SIGKILL");
  }

  int checks = 0;
  int reads = 0;
  std::function<void()> on_progress;

 private:
  std::vector<v1::VariableSpec> variables_;
};

// A store whose ps never answer.
class SilentStore : public VariableStore {
 public:
  explicit SilentStore(std::vector<ExchangeGroup> groups) : groups_(std::move(groups)) {}
  const std::vector<ExchangeGroup>& groups() const override { return groups_; }
  void Start(const Exchange& /*exchange*/, Done done) override {
    waiting_.push_back(std::move(done));
  }
  void SetView(const StoreView& /*view*/) override {}
  void Shutdown() override {
    ExchangeResult result;
    result.status = absl::CancelledError("shut down");
    for (const Done& done : waiting_) done(result);
    waiting_.clear();
  }
  size_t num_waiting() const { return waiting_.size(); }

 private:
  const std::vector<ExchangeGroup> groups_;
  std::vector<Done> waiting_;
};

class NoExamples final : public Dataset {
 public:
  int64_t size() const override { return 8; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> /*indices*/,
                         absl::Span<void* const> /*outputs*/) const override {
    return absl::OkStatus();
  }

 private:
  const std::vector<FieldSpec> fields_ = {};
};

class SteppingTrainerTest : public ::testing::TestWithParam<bool> {};

// In SYNC the worker waits for a ps, in ASYNC also for a batch.
TEST_P(SteppingTrainerTest, AProgramThatEndsWhileItsWorkerWaitsEndsTheWorker) {
  const RealClock clock;
  FakeChief chief;
  EndingProgram program;
  const NoExamples dataset;
  const SliceTable table = SliceTable::Create(program.variables(), 4096).value();
  SilentStore store(MakeExchangeGroups(table, {0}, 8));
  Replica replica(&program, &table, &store.groups());
  BatchPlanOptions plan;
  plan.num_examples = dataset.size();
  plan.batch_size = 2;
  StepPlan::Options steps;
  steps.examples_per_epoch = static_cast<uint64_t>(dataset.size());
  steps.batch_examples = 2;
  steps.replicas_to_aggregate = 1;
  const BatchPlan batches = *BatchPlan::Create(plan);
  TrainerOptions options{.clock = &clock,
                         .replica = &replica,
                         .store = &store,
                         .chief = chief.client(),
                         .train = &dataset,
                         .train_plan = batches,
                         .test_plan = batches,
                         .steps = *StepPlan::Create(steps),
                         .identity = [] { return v1::Identity(); }};
  std::unique_ptr<Trainer> trainer;
  if (GetParam()) {
    trainer = std::make_unique<SyncTrainer>(options);
  } else {
    trainer = std::make_unique<AsyncTrainer>(options);
  }
  for (int report = 0; report < 3; ++report) program.on_progress();
  EXPECT_EQ(trainer->progress().computed, 1u) << "they come within 15 s";
  v1::RunState state;
  state.set_number(1);
  state.set_phase(v1::RunState::PHASE_TRAINING);
  state.set_view(1);
  state.set_lineage(1);
  state.set_last_step(4);
  state.set_synchronous(GetParam());
  state.add_workers(0);
  trainer->OnState(state);
  EXPECT_EQ(trainer->Run(), absl::UnavailableError("killed by SIGKILL"));
  EXPECT_EQ(program.checks, 4);
  EXPECT_EQ(program.reads, 2);
  if (GetParam()) {
    EXPECT_GT(store.num_waiting(), 0u) << "the worker did not wait for a ps";
  }
  store.Shutdown();
  trainer.reset();
  EXPECT_TRUE(program.on_progress == nullptr);
}

INSTANTIATE_TEST_SUITE_P(Modes, SteppingTrainerTest, ::testing::Bool(),
                         [](const auto& mode) { return mode.param ? "Sync" : "Async"; });

}  // namespace
}  // namespace shoal
