#include "ps/ps_cluster_testing.h"

#include <grpcpp/channel.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "proto/v1/parameter_service.grpc.pb.h"
#include "ps/parameter_service_impl.h"
#include "ps/parameter_shard.h"
#include "runtime/rpc/channel.h"
#include "runtime/rpc/grpc_control_channel.h"
#include "runtime/rpc/parameter_client.h"
#include "runtime/transport/in_process_bulk_channel.h"

namespace shoal {

v1::LoadSlicesRequest PsLoadRequest(uint64_t lineage, bool synchronous) {
  v1::LoadSlicesRequest request;
  request.mutable_identity()->set_run_id("0123456789abcdef0123456789abcdef");
  request.mutable_identity()->set_term(1);
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_CHIEF);
  request.mutable_identity()->set_lineage(lineage);
  v1::OptimizerConfig* optimizer = request.mutable_run()->mutable_optimizer();
  optimizer->mutable_sgd();
  optimizer->set_learning_rate(0.5);
  request.mutable_run()->mutable_sync()->set_sync_replicas(synchronous);
  request.mutable_run()->mutable_sync()->set_max_staleness(-1);
  request.mutable_run()->set_max_steps(1000);
  request.mutable_run()->mutable_checkpoint()->set_save_every(100000);
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    v1::VariableSpec* variable = request.add_variables();
    variable->set_name(name);
    for (const int64_t dimension : shape) variable->add_shape(dimension);
    variable->set_dtype(v1::DATA_TYPE_FLOAT32);
    variable->set_trainable(true);
    variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
    variable->mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
    variable->mutable_initializer()->set_a(1);
  };
  add("w", {56, 8});
  add("b", {8});
  request.mutable_shard_map()->set_num_ps_tasks(kNumTestPs);
  request.mutable_shard_map()->set_slice_bytes(512);
  for (const uint32_t owner : {0, 1, 0, 1, 0}) request.mutable_shard_map()->add_owner(owner);
  v1::StepPlan* plan = request.mutable_plan();
  plan->set_examples_per_epoch(8);
  plan->set_batch_examples(2);
  plan->set_replicas_to_aggregate(synchronous ? 2 : 1);
  return request;
}

std::string PsFormName(const testing::TestParamInfo<PsForm>& info) {
  constexpr const char* kNames[] = {"InProcess", "Grpc", "SharedMemory"};
  return kNames[static_cast<int>(info.param)];
}

namespace {

BulkConnector::Options ConnectorOptions(PsForm form) {
  BulkConnector::Options options;
  options.shared_memory = form == PsForm::kSharedMemory;
  return options;
}

}  // namespace

std::map<uint32_t, uint64_t> WorkersFrom(uint64_t first) {
  std::map<uint32_t, uint64_t> incarnations;
  for (uint32_t worker = 0; worker < kNumTestWorkers; ++worker) {
    incarnations[worker] = first + worker;
  }
  return incarnations;
}

PsTestCluster::PsTestCluster(PsForm form,
                             const std::function<void(ParameterServer::Options*)>& change)
    : form(form), connector(ConnectorOptions(form)) {
  for (uint32_t i = 0; i < kNumTestPs; ++i) {
    ParameterServer::Options options;
    options.session.task.index = i;
    options.chief = chief.client();
    options.clock = &clock;
    options.file_system = file_system.get();
    options.session.nonce = absl::StrCat("ps", i);
    options.session.lease = absl::Seconds(10);
    options.session.register_patience = absl::Seconds(300);
    options.session.heartbeat_wait = absl::Milliseconds(20);
    options.threads = 2;
    if (form == PsForm::kInProcess) {
      options.address = absl::StrCat(i);
    } else {
      options.listen_address = "127.0.0.1:0";
    }
    if (change != nullptr) change(&options);
    servers.push_back(std::move(ParameterServer::Create(options).value()));
    EXPECT_TRUE(servers.back()->Start().ok());
    servers.back()->shard()->LearnWorkers(WorkersFrom(kTestWorker0));
  }
}

PsTestCluster::~PsTestCluster() {
  for (auto& server : servers) EXPECT_TRUE(server->Stop().ok());
}

std::unique_ptr<BulkChannel> PsTestCluster::Connect(const std::string& address) {
  if (form != PsForm::kInProcess) {
    std::unique_ptr<BulkChannel> channel = connector.Connect(address);
    EXPECT_EQ(channel->needs_checksums(), form == PsForm::kGrpc);
    return channel;
  }
  return NewInProcessBulkChannel(servers[std::stoi(address)]->bulk_service());
}

absl::Status PsTestCluster::Load(uint64_t lineage, bool synchronous,
                                 const std::function<void(v1::LoadSlicesRequest*)>& change) {
  v1::LoadSlicesRequest request = PsLoadRequest(lineage, synchronous);
  if (change != nullptr) change(&request);
  for (const auto& server : servers) {
    v1::LoadSlicesResponse response;
    absl::Status status;
    if (form != PsForm::kInProcess) {
      ParameterClient client(NewGrpcControlChannel(
          NewGrpcChannel(server->address(), ChannelUse::kControl, kMaxControlMessageBytes)));
      status = client.Call(&v1::ParameterService::Service::LoadSlices, request, &response);
    } else {
      status = server->parameter_service()->LoadSlices(request, &response);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

StoreView PsTestCluster::View(uint64_t lineage) const {
  StoreView view{1, 1, lineage, {}, {}};
  for (size_t i = 0; i < servers.size(); ++i) {
    view.ps_addresses.push_back(servers[i]->address());
    view.ps_incarnations.push_back(i + 1);
  }
  return view;
}

}  // namespace shoal
