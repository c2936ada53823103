// Tests that workers which train a model with a table give the same rows for any number of workers:
// real trainers and a real ps in this process, without a chief.
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/notification.h"
#include "base/status_matchers.h"
#include "ml/data/ragged_rows.h"
#include "ml/graph/ops.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/parameter_server.h"
#include "ps/parameter_service_impl.h"
#include "ps/shard_variable_store.h"
#include "runtime/config/run_config.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/variables/exchange_groups.h"
#include "worker/replica/compute_backends.h"
#include "worker/replica/graph_program.h"
#include "worker/replica/replica.h"
#include "worker/sync_trainer.h"

namespace shoal {
namespace {

using ::testing::Each;
using ::testing::Not;

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";
constexpr int64_t kExamples = 90;
constexpr int64_t kBatch = 5;
constexpr uint32_t kPositions = 3;
constexpr uint64_t kLastStep = 15;
constexpr int64_t kKeys = 40;

// Every example has 0 to 3 keys.
class KeysDataset final : public Dataset {
 public:
  int64_t size() const override { return kExamples; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return 1; }
  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    for (size_t i = 0; i < indices.size(); ++i) {
      RaggedRows& rows = RaggedOutput(outputs[0]);
      for (int64_t k = 0; k < indices[i] % 4; ++k) rows.AddKey((indices[i] * (k + 3)) % kKeys);
      rows.EndExample();
      static_cast<float*>(outputs[1])[i] = static_cast<float>(indices[i] % 7);
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<FieldSpec> fields_ = {RaggedField("item"),
                                          {kTargetField, {DataType::kFloat32, {1}}}};
};

v1::RunConfig Run() {
  v1::RunConfig run = *ParseRunConfig(R"pb(
                                        table {
                                          name: "item"
                                          dim: 3
                                          buckets: 4
                                          optimizer { adagrad { learning_rate: 0.1 } }
                                        }
                                        optimizer {
                                          sgd {}
                                          learning_rate: 0.05
                                        }
                                        batch_size: 5
                                        max_steps: 15
                                      )pb",
                                      "test");
  ResolveDefaults(TaskCounts(), &run);
  return run;
}

std::unique_ptr<GraphProgram> MakeProgram(const Dataset& dataset) {
  GraphProgram::Options options;
  options.run = Run();
  options.fields = dataset.fields();
  options.model = [fields = dataset.fields()](GraphBuilder& builder, absl::Span<const Output> batch,
                                              bool /*is_training*/) {
    const FieldPlaceholders item = FindField(fields, batch, "item");
    const Output rows = builder.TableRows("item", 3);
    const Output indices = builder.TableIndices("item", "item");
    DenseOptions layer;
    layer.units = 1;
    ModelOutputs outputs;
    outputs.predictions =
        Dense(builder, ops::EmbeddingBag(builder, rows, indices, item.offsets), layer);
    outputs.loss = AddLoss(builder, LossKind::kMeanSquaredError, outputs.predictions, batch.back());
    return outputs;
  };
  SetBackends(&options);
  absl::StatusOr<std::unique_ptr<GraphProgram>> program = GraphProgram::Create(std::move(options));
  EXPECT_OK(program.status());
  return *std::move(program);
}

BatchPlan PlanOf() {
  BatchPlanOptions options;
  options.num_examples = kExamples;
  options.batch_size = kBatch;
  options.seed = 3;
  return *BatchPlan::Create(options);
}

StepPlan Steps() {
  StepPlan::Options options;
  options.examples_per_epoch = kExamples;
  options.batch_examples = kBatch;
  options.replicas_to_aggregate = kPositions;
  return *StepPlan::Create(options);
}

// One worker: a trainer on its own thread.
struct Worker {
  std::unique_ptr<GraphProgram> program;
  std::unique_ptr<ShardVariableStore> store;
  std::unique_ptr<Replica> replica;
  std::unique_ptr<SyncTrainer> trainer;
  std::thread thread;
  absl::Status status;
};

// The rows of all keys after the last step of a run with so many workers.
std::vector<float> TrainedRows(uint32_t num_workers) {
  const RealClock clock;
  const KeysDataset dataset;
  FakeChief chief;
  ParameterServer::Options server_options;
  server_options.chief = chief.client();
  server_options.clock = &clock;
  server_options.session.nonce = "ps";
  server_options.session.lease = absl::Seconds(10);
  server_options.session.register_patience = absl::Seconds(300);
  server_options.address = "in this process";
  std::unique_ptr<ParameterServer> server = *ParameterServer::Create(server_options);
  EXPECT_OK(server->Start());

  const std::unique_ptr<GraphProgram> reader = MakeProgram(dataset);
  const SliceTable table = *SliceTable::Create(reader->variables(), 4096);
  const StepPlan steps = Steps();
  v1::LoadSlicesRequest load;
  load.mutable_identity()->set_run_id(kRunId);
  load.mutable_identity()->set_term(1);
  load.mutable_identity()->mutable_member()->set_job(v1::JOB_CHIEF);
  load.mutable_identity()->set_lineage(1);
  *load.mutable_run() = Run();
  for (const v1::VariableSpec& variable : reader->variables()) *load.add_variables() = variable;
  load.mutable_shard_map()->set_num_ps_tasks(1);
  load.mutable_shard_map()->set_slice_bytes(4096);
  for (uint32_t slice = 0; slice < table.size(); ++slice) load.mutable_shard_map()->add_owner(0);
  steps.ToProto(load.mutable_plan());
  v1::LoadSlicesResponse loaded;
  EXPECT_OK(server->parameter_service()->LoadSlices(load, &loaded));

  v1::RunState state;
  state.set_number(1);
  state.set_phase(v1::RunState::PHASE_TRAINING);
  state.set_view(1);
  state.set_lineage(1);
  state.add_ps_addresses(server->address());
  state.add_ps_incarnations(1);
  state.set_last_step(kLastStep);
  state.set_synchronous(true);
  *state.mutable_plan() = load.plan();
  *state.mutable_shard_map() = load.shard_map();
  std::map<uint32_t, uint64_t> incarnations;
  for (uint32_t w = 0; w <= num_workers; ++w) incarnations[w] = 10 + w;
  for (uint32_t w = 0; w < num_workers; ++w) state.add_workers(w);
  server->shard()->LearnWorkers({incarnations.begin(), incarnations.end()});

  const auto make_store = [&](uint32_t worker) {
    ShardVariableStore::Options options;
    options.run_id = kRunId;
    options.worker_index = worker;
    options.incarnation = 10 + worker;
    options.groups = MakeExchangeGroups(table, std::vector<uint32_t>(table.size(), 0));
    return std::make_unique<ShardVariableStore>(server->shard(), std::move(options), &clock);
  };
  std::vector<Worker> workers(num_workers);
  for (uint32_t w = 0; w < num_workers; ++w) {
    Worker& worker = workers[w];
    worker.program = MakeProgram(dataset);
    worker.store = make_store(w);
    worker.replica =
        std::make_unique<Replica>(worker.program.get(), &table, &worker.store->groups());
    TrainerOptions options{.worker = w,
                           .clock = &clock,
                           .replica = worker.replica.get(),
                           .store = worker.store.get(),
                           .chief = chief.client(),
                           .train = &dataset,
                           .train_plan = PlanOf(),
                           .test_plan = PlanOf(),
                           .steps = steps,
                           .identity = [] {
                             v1::Identity identity;
                             identity.set_term(1);
                             return identity;
                           }};
    worker.trainer = std::make_unique<SyncTrainer>(options);
    worker.trainer->OnState(state);
    worker.thread = std::thread([&worker] { worker.status = worker.trainer->Run(); });
  }
  for (Worker& worker : workers) {
    while (worker.trainer->progress().step < kLastStep) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  state.set_number(2);
  state.set_phase(v1::RunState::PHASE_DONE);
  for (Worker& worker : workers) {
    worker.trainer->OnState(state);
    worker.thread.join();
    EXPECT_OK(worker.status);
    worker.store->Shutdown();
    worker.trainer.reset();
  }

  const std::unique_ptr<ShardVariableStore> store = make_store(num_workers);
  store->SetView({1, 1, 1, {server->address()}, {1}});
  Replica replica(reader.get(), &table, &store->groups());
  RaggedRows all;
  for (int64_t key = 0; key < kKeys; ++key) all.AddExample({key});
  const std::unique_ptr<BatchDigest> keys = replica.MakeDigest();
  LoadedBatch batch;
  batch.fields = {&all, nullptr};
  EXPECT_OK(keys->Update(batch));
  batch.digest = keys.get();
  replica.rows()->Prepare(0, &GetKeys(batch));
  for (uint32_t g = 0; g < store->groups().size(); ++g) {
    if (!store->groups()[g].buckets) continue;
    Exchange exchange;
    exchange.group = g;
    exchange.lineage = 1;
    exchange.pull = true;
    exchange.pull_version = kLastStep;
    exchange.park = absl::Seconds(10);
    exchange.pull_rows = replica.rows()->pulls(0, g);
    Notification done;
    store->Start(exchange, [&](const ExchangeResult& result) {
      EXPECT_OK(result.status);
      for (const PulledSlice& pull : result.pulls) EXPECT_TRUE(pull.has_value);
      done.Notify();
    });
    done.Wait();
  }
  const TableRows rows = replica.rows()->GetRows(0, GetKeys(batch))[0];
  const std::vector<float> values(rows.values, rows.values + 3 * kKeys);
  store->Shutdown();
  return values;
}

TEST(TableTrainersTest, AnyNumberOfWorkersGivesTheSameRows) {
  const std::vector<float> one = TrainedRows(1);
  EXPECT_THAT(one, Not(Each(0)));
  EXPECT_EQ(TrainedRows(2), one);
  EXPECT_EQ(TrainedRows(4), one);  // one worker more than positions
}

}  // namespace
}  // namespace shoal
