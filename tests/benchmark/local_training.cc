#include "tests/benchmark/local_training.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/status_macros.h"
#include "ml/nn/model_builder.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/parameter_service_impl.h"
#include "ps/shard_variable_store.h"
#include "runtime/config/run_config.h"
#include "runtime/variables/exchange_groups.h"
#include "worker/replica/compute_backends.h"

namespace shoal {
namespace {

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";
constexpr uint64_t kSliceBytes = 256 << 10;

std::vector<FieldSpec> FieldsOf(const std::string& model) {
  if (model == "seed_mlp") {
    return {{kInputField, {DataType::kFloat32, {600}}}, {kTargetField, {DataType::kFloat32, {1}}}};
  }
  if (model == "mobilenet_v2" || model == "resnet18") {
    const int64_t size = model == "resnet18" ? 64 : 96;
    return {{kInputField, {DataType::kFloat32, {3, size, size}}},
            {kLabelField, {DataType::kInt32, {}}}};
  }
  return {{kInputField, {DataType::kFloat32, {1, 28, 28}}}, {kLabelField, {DataType::kInt32, {}}}};
}

// The same value as in the peers.
int64_t ClassesOf(const v1::ModelConfig& model) {
  return model.name() == "mobilenet_v2" || model.name() == "resnet18" ? 1000 : 10;
}

v1::RunConfig RunOf(const LocalTraining::Options& options) {
  v1::RunConfig run;
  run.mutable_model()->set_name(options.model == "lenet" ? "fashion_cnn" : options.model);
  run.mutable_optimizer()->mutable_sgd();
  // Small enough for as many steps on one batch as anybody measures.
  run.mutable_optimizer()->set_learning_rate(1e-9);
  run.set_batch_size(options.batch_size);
  run.set_max_steps(uint64_t{1} << 40);
  run.mutable_checkpoint()->set_save_every(uint64_t{1} << 40);
  run.mutable_deployment()->set_threads(options.threads);
  run.mutable_deployment()->set_num_clones(options.devices);
  run.mutable_deployment()->set_variables(options.variables);
  run.mutable_deployment()->set_cuda_graphs(options.cuda_graphs);
  run.set_compute_dtype(options.bfloat16 ? "bfloat16" : "float32");
  if (!options.device_list.empty()) {
    run.mutable_deployment()->set_devices(options.device_list);
    run.mutable_deployment()->set_allow_soft_placement(false);
  }
  ResolveDefaults(TaskCounts(), &run);
  return run;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalTraining>> LocalTraining::Create(const Options& options) {
  constexpr absl::string_view kModels[] = {"seed_mlp", "lenet", "mobilenet_v2", "resnet18"};
  if (!absl::c_linear_search(kModels, options.model)) {
    return absl::InvalidArgumentError("model: seed_mlp, lenet, mobilenet_v2 or resnet18");
  }
  std::unique_ptr<LocalTraining> training(new LocalTraining());
  training->run_ = RunOf(options);
  training->fields_ = FieldsOf(options.model);
  StepPlan::Options steps;
  steps.examples_per_epoch = uint64_t{1} << 40;
  steps.batch_examples = uint64_t{options.batch_size} * options.devices;
  ASSIGN_OR_RETURN(training->steps_, StepPlan::Create(steps));
  RETURN_IF_ERROR(training->BuildProgram());
  training->MakeBatch();
  RETURN_IF_ERROR(
      training->StartServer(options.chief != nullptr ? options.chief : training->chief_.client()));
  RETURN_IF_ERROR(training->PullFirstValues());
  return training;
}

LocalTraining::~LocalTraining() {
  if (store_ != nullptr) store_->Shutdown();
  store_.reset();
}

absl::Status LocalTraining::BuildProgram() {
  GraphProgram::Options program;
  program.run = run_;
  program.fields = fields_;
  ASSIGN_OR_RETURN(program.model, MakeModel(run_.model(), program.fields, ClassesOf(run_.model())));
  SetBackends(&program);
  ASSIGN_OR_RETURN(program_, GraphProgram::Create(std::move(program)));
  return absl::OkStatus();
}

void LocalTraining::MakeBatch() {
  batch_.num_examples = int64_t{run_.batch_size()} * run_.deployment().num_clones();
  uint32_t state = 1;
  for (const FieldSpec& field : fields_) {
    const uint64_t elements =
        static_cast<uint64_t>(batch_.num_examples * field.example.shape.num_elements());
    Buffer& rows = rows_.emplace_back(elements * SizeOf(field.example.dtype));
    batch_.fields.push_back(rows.data());
    for (uint64_t i = 0; i < elements; ++i) {
      state = state * 1664525u + 1013904223u;
      if (field.example.dtype == DataType::kInt32) {
        rows.As<int32_t>()[i] = static_cast<int32_t>((state >> 8) % 10);
      } else {
        rows.As<float>()[i] = static_cast<float>(state >> 8) / (1 << 24);
      }
    }
  }
}

v1::LoadSlicesRequest LocalTraining::LoadRequest() const {
  v1::LoadSlicesRequest request;
  request.mutable_identity()->set_run_id(kRunId);
  request.mutable_identity()->set_term(1);
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_CHIEF);
  request.mutable_identity()->set_lineage(1);
  *request.mutable_run() = run_;
  for (const v1::VariableSpec& variable : program_->variables())
    *request.add_variables() = variable;
  request.mutable_shard_map()->set_num_ps_tasks(1);
  request.mutable_shard_map()->set_slice_bytes(kSliceBytes);
  for (uint32_t slice = 0; slice < table_->size(); ++slice)
    request.mutable_shard_map()->add_owner(0);
  steps_->ToProto(request.mutable_plan());
  return request;
}

absl::Status LocalTraining::StartServer(ChiefClient* chief) {
  ParameterServer::Options server;
  server.chief = chief;
  server.clock = &clock_;
  server.session.nonce = "ps";
  server.session.lease = absl::Seconds(10);
  server.session.register_patience = absl::Seconds(300);
  server.address = "in this process";
  ASSIGN_OR_RETURN(server_, ParameterServer::Create(server));
  RETURN_IF_ERROR(server_->Start());

  ASSIGN_OR_RETURN(const SliceTable table, SliceTable::Create(program_->variables(), kSliceBytes));
  table_ = std::make_unique<SliceTable>(table);
  v1::LoadSlicesResponse response;
  RETURN_IF_ERROR(server_->parameter_service()->LoadSlices(LoadRequest(), &response));

  constexpr uint64_t kWorkerIncarnation = 2;
  server_->shard()->LearnWorkers({{0, kWorkerIncarnation}});
  ShardVariableStore::Options store;
  store.run_id = kRunId;
  store.incarnation = kWorkerIncarnation;
  store.groups = MakeExchangeGroups(table, std::vector<uint32_t>(table.size(), 0));
  store_ = std::make_unique<ShardVariableStore>(server_->shard(), std::move(store), &clock_);
  store_->SetView({1, 1, 1, {server_->address()}, {1}});
  return absl::OkStatus();
}

absl::Status LocalTraining::PullFirstValues() {
  replica_ = std::make_unique<Replica>(program_.get(), table_.get(), &store_->groups());
  for (const ExchangeGroup& group : store_->groups()) num_versioned_ += group.versioned ? 1 : 0;
  // Values that nobody contributes to are pulled into both sets, once.
  for (uint32_t set = 0; set < Replica::kSets; ++set) {
    Begin(static_cast<uint32_t>(store_->groups().size()));
    for (uint32_t g = 0; g < store_->groups().size(); ++g) {
      Exchange exchange;
      exchange.group = g;
      exchange.lineage = 1;
      exchange.pull = true;
      exchange.pull_data = replica_->pull_data(set, g, exchange.lineage);
      exchange.park = absl::Seconds(2);
      Start(exchange);
    }
    RETURN_IF_ERROR(AwaitExchanges());
  }
  return absl::OkStatus();
}

absl::Status LocalTraining::Step() {
  const auto set = static_cast<uint32_t>(step_ % Replica::kSets);
  const uint32_t next_set = 1 - set;
  batch_.index = static_cast<int64_t>(step_);
  Begin(num_versioned_);
  const auto exchange_group = [&](uint32_t group, bool finite, const BatchReport& report) {
    if (!finite) {
      MutexLock lock(&mutex_);
      failure_ = absl::InternalError("a gradient is not finite");
      changed_.NotifyAll();
      return;
    }
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = 1;
    exchange.push = true;
    exchange.batch = {0, step_};
    exchange.step = step_;
    exchange.batch_examples = static_cast<uint32_t>(batch_.num_examples);
    exchange.report = report;
    exchange.push_kinds = replica_->push_kinds(group);
    exchange.push_data = replica_->push_data(set, group);
    exchange.push_bytes = replica_->push_bytes(set, group);
    exchange.pull = true;
    exchange.pull_version = step_ + 1;
    exchange.pull_data = replica_->pull_data(next_set, group, exchange.lineage);
    exchange.park = absl::Seconds(2);
    Start(exchange);
  };
  RETURN_IF_ERROR(replica_->Train(batch_, set, set, exchange_group));
  ++step_;
  return AwaitExchanges();
}

void LocalTraining::Begin(uint32_t exchanges) {
  MutexLock lock(&mutex_);
  left_ = exchanges;
}

void LocalTraining::Start(const Exchange& exchange) {
  store_->Start(exchange, [this](const ExchangeResult& result) {
    MutexLock lock(&mutex_);
    if (!result.status.ok()) failure_ = result.status;
    for (const PulledSlice& pull : result.pulls) {
      if (!pull.has_value) failure_ = absl::DeadlineExceededError("a value did not come in time");
    }
    --left_;
    changed_.NotifyAll();
  });
}

absl::Status LocalTraining::AwaitExchanges() {
  MutexLock lock(&mutex_);
  while (left_ > 0 && failure_.ok()) changed_.Wait(&mutex_);
  return failure_;
}

}  // namespace shoal
