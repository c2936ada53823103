#include "ps/parameter_server.h"

#include <grpcpp/impl/codegen/service_type.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/memory_limit.h"
#include "base/mutex.h"
#include "base/notification.h"
#include "base/status_macros.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/chief_reporter.h"
#include "ps/exchange_service.h"
#include "ps/memory_check.h"
#include "ps/parameter_service_impl.h"
#include "ps/parameter_shard.h"
#include "ps/ps_metrics.h"
#include "ps/shard_checkpointer.h"
#include "ps/snapshot.h"
#include "ps/table_memory.h"
#include "runtime/cluster/address.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/rpc/chief_session.h"
#include "runtime/rpc/grpc_parameter_service.h"
#include "runtime/rpc/grpc_server.h"
#include "runtime/rpc/run_state.h"
#include "runtime/transport/grpc_bulk_server.h"
#include "runtime/transport/shared_memory_bulk_server.h"

namespace shoal {
namespace {

// The longest time that a ps waits after the run's end for the chief's notification; a ps that the
// chief cannot reach ends after it by itself.
constexpr absl::Duration kFinishWait = absl::Seconds(10);
constexpr absl::Duration kStopGrace = absl::Seconds(2);
// The longest time that a load waits for the rows of an older snapshot to leave the memory. Then
// the chief, which waits for longer (kLoadTimeout), asks again.
constexpr absl::Duration kRowsWait = absl::Seconds(8);

// Returns the number of slices of the store that take part in clipping by global norm.
size_t CountNorms(const v1::LoadSlicesRequest& request, const PartitionedStore& store) {
  if (request.run().optimizer().clip_by_global_norm() == 0) return 0;
  size_t count = 0;
  for (const uint32_t slice : store.owned()) {
    const uint32_t variable = store.table()[slice].variable;
    const v1::UpdateKind update = request.variables(static_cast<int>(variable)).update();
    if (update == v1::UPDATE_KIND_OPTIMIZER) ++count;
  }
  return count;
}

}  // namespace

class ParameterServer::Core : public ShardObserver,
                              public ChiefSession::Observer,
                              public TaskSource {
 public:
  explicit Core(const Options& options);
  ~Core() override { Stop().IgnoreError(); }

  absl::Status Listen();
  absl::Status Start();
  absl::Status Wait();
  void EndWith(const absl::Status& status);
  absl::Status Stop();

  const std::string& address() const { return address_; }
  ParameterServiceImpl* parameter_service() { return &parameter_service_; }
  grpc::Service* control_service() { return &control_service_; }
  ExchangeService* exchange_service() { return &exchange_service_; }
  ParameterShard* shard() { return &shard_; }

  // ShardObserver
  void OnLineage(uint64_t lineage) override;
  void OnEvents(SliceStoreEvents* events) override;
  // ChiefSession::Observer
  void OnRunState(const v1::RunState& state) override;
  void OnFenced(const absl::Status& status) override { EndWith(status); }
  void OnChiefLost(const absl::Status& status) override { EndWith(status); }
  // TaskSource
  TaskStatus Status() const override;
  void Collect(MetricPage* page) const override;

 private:
  absl::Status ListenOverGrpc();
  void OfferSharedMemory();
  ChiefReporter::Options ReporterOptions();
  ParameterServiceImpl::Options ServiceOptions();
  ChiefSession::Options SessionOptions();

  const Options options_;
  std::string address_;
  PsMetrics metrics_;
  TableMemory table_memory_;
  // The lineage whose variables this ps has loaded (0: none), and the newest one of the run. The ps
  // is ready once it has loaded that one.
  std::atomic<uint64_t> loaded_lineage_{0};
  std::atomic<uint64_t> wanted_lineage_{0};
  uint64_t newest_step_ = 0;  // Used only in calls of the observer.
  // The load under way, of which there is at most one.
  size_t num_norms_ = 0;
  SnapshotLineage lineage_;
  ChiefReporter reporter_;
  ShardCheckpointer checkpointer_;
  ParameterShard shard_;
  std::thread shard_timer_;
  ExchangeService exchange_service_;
  ParameterServiceImpl parameter_service_;
  GrpcParameterService<ParameterServiceImpl> control_service_;
  std::unique_ptr<GrpcBulkServer> bulk_server_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<SharedMemoryBulkServer> shared_memory_server_;  // Null if there is none.
  std::unique_ptr<ChiefSession> session_;

  Mutex mutex_;
  CondVar changed_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status end_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // The run's status, once the chief has sent it.
  absl::Time give_up_waiting_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  bool stopped_ = false;
};

ParameterServer::Core::Core(const Options& options)
    : options_(options),
      address_(options.address),
      reporter_(ReporterOptions()),
      checkpointer_({options.session.task.index, options.file_system, options.chief, options.clock,
                     [this] { return session_->identity(); }, &metrics_}),
      shard_(options.clock, this),
      shard_timer_([this] { shard_.RunTimer(); }),
      exchange_service_(&shard_, options.max_payload_bytes, &metrics_, options.threads),
      parameter_service_(ServiceOptions()),
      control_service_(&parameter_service_) {}

void ParameterServer::Core::OfferSharedMemory() {
  absl::StatusOr<std::unique_ptr<SharedMemoryBulkServer>> offered =
      SharedMemoryBulkServer::Start(server_->address(), &exchange_service_, options_.threads);
  if (offered.ok()) {
    shared_memory_server_ = std::move(*offered);
  } else {
    LOG(INFO) << "this ps cannot offer shared memory, so workers on this host use gRPC: "
              << offered.status();
  }
}

ChiefReporter::Options ParameterServer::Core::ReporterOptions() {
  ChiefReporter::Options options;
  options.chief = options_.chief;
  options.clock = options_.clock;
  options.identity = [this] { return session_->identity(); };
  options.apply_scale = [this](const ChiefReportLogic::Scale& scale) {
    return shard_.CommandOfOwn(scale.lineage, [&scale](PartitionedStore* store) {
      store->ApplyScale(scale.step, scale.scale);
    });
  };
  options.on_failure = [this](const absl::Status& failure) { EndWith(failure); };
  return options;
}

ParameterServiceImpl::Options ParameterServer::Core::ServiceOptions() {
  ParameterServiceImpl::Options options;
  options.ps_index = options_.session.task.index;
  options.shard = &shard_;
  options.file_system = options_.file_system;
  options.ps_memory = options_.ps_memory;
  options.staging_bytes = options_.staging_bytes;
  options.num_parts = options_.threads;
  options.on_load = [this](const v1::LoadSlicesRequest& request, const PartitionedStore& store) {
    num_norms_ = CountNorms(request, store);
    lineage_ = SnapshotLineage::Of(request, store);
    uint64_t bytes = 0;
    for (const uint32_t slice : store.owned()) {
      if (!store.table()[slice].is_bucket) bytes += store.table()[slice].num_bytes();
    }
    metrics_.variable_bytes.Set(static_cast<double>(bytes));
    metrics_.slices.Set(static_cast<double>(store.owned().size()));
  };
  options.on_memory = [this](const v1::LoadSlicesRequest& request, const MemoryNeed& need,
                             const MemoryBounds& bounds) {
    std::vector<std::string> names;
    for (const v1::VariableSpec& variable : request.variables()) names.push_back(variable.name());
    table_memory_.StartLineage(need, bounds, std::move(names));
    checkpointer_.EndLineage();
    return checkpointer_.AwaitRows(kRowsWait);
  };
  options.on_cut_asked = [this](uint64_t version) { checkpointer_.Ask(version); };
  options.on_finish = [this](const absl::Status& run_failed) { EndWith(run_failed); };
  return options;
}

ChiefSession::Options ParameterServer::Core::SessionOptions() {
  ChiefSession::Options options = options_.session;
  options.task.job = Job::kPs;
  options.secure = options_.credentials != nullptr;
  options.address = address_;
  options.add_to_heartbeat = [this](v1::HeartbeatRequest* request) {
    const std::vector<TableUse> tables = shard_.TablesInUse();
    if (!tables.empty()) *request->mutable_memory() = table_memory_.Describe(tables);
  };
  return options;
}

absl::Status ParameterServer::Core::Listen() {
  if (!options_.listen_address.empty()) RETURN_IF_ERROR(ListenOverGrpc());
  session_ = std::make_unique<ChiefSession>(options_.chief, options_.clock, SessionOptions(), this);
  return absl::OkStatus();
}

absl::Status ParameterServer::Core::ListenOverGrpc() {
  GrpcBulkServer::Options bulk_options;
  bulk_options.spin = options_.spin;
  bulk_options.num_threads = static_cast<int>(options_.threads);
  bulk_server_ = std::make_unique<GrpcBulkServer>(&exchange_service_, bulk_options);
  GrpcServer::Options server_options;
  server_options.address = options_.listen_address;
  server_options.credentials = options_.credentials;
  server_options.insecure = options_.insecure;
  server_options.max_message_bytes = options_.max_payload_bytes + kMaxBulkHeaderBytes;
  server_options.memory_bytes = ComputeMemoryBounds(options_.ps_memory, ReadMemoryLimit()).messages;
  server_options.health_service = std::string(JobName(Job::kPs));
  server_options.services = {&control_service_};
  server_options.bulk = bulk_server_.get();
  ASSIGN_OR_RETURN(server_, GrpcServer::Create(server_options));
  if (address_.empty()) address_ = server_->address();
  if (GetPort(address_) == "0") address_ = WithPort(address_, server_->port());
  // It asks for no certificate.
  if (options_.shared_memory && options_.credentials == nullptr) OfferSharedMemory();
  return absl::OkStatus();
}

absl::Status ParameterServer::Core::Start() {
  RETURN_IF_ERROR(session_->Register(nullptr));
  const v1::Identity identity = session_->identity();
  shard_.SetRules(ReceiverRules(identity.run_id(), identity.term(), identity.incarnation()),
                  [this] { return session_->is_lease_valid(); });
  session_->Start();
  return absl::OkStatus();
}

void ParameterServer::Core::OnLineage(uint64_t lineage) {
  loaded_lineage_ = lineage;
  newest_step_ = 0;
  if (server_ != nullptr) server_->SetServing(true);
  reporter_.StartLineage(lineage, num_norms_);
  checkpointer_.StartLineage(std::move(lineage_));
}

void ParameterServer::Core::OnEvents(SliceStoreEvents* events) {
  reporter_.AddSteps(events->steps);
  reporter_.AddPoisoned(events->poisoned);
  reporter_.AddNorms(events->norms);
  for (const SliceStoreEvents::CutPart& cut : events->cuts) {
    if (cut.completes_cut) reporter_.HurrySteps();
  }
  checkpointer_.AddParts(&events->cuts);
  if (!events->advances.empty()) {
    ChiefSession::Activity activity;
    // Slices are not all at the same version, nor are the events of one that is ahead the last.
    newest_step_ = std::max(newest_step_, events->advances.back().version);
    activity.step = newest_step_;
    activity.words = "serves";
    metrics_.step.Set(static_cast<double>(activity.step));
    session_->SetActivity(std::move(activity));
  }
}

void ParameterServer::Core::Collect(MetricPage* page) const {
  CollectPs(metrics_, options_.session.task.index, page);
  const std::vector<TableUse> tables = shard_.TablesInUse();
  if (!tables.empty()) CollectTables(table_memory_.Describe(tables), page);
}

TaskStatus ParameterServer::Core::Status() const {
  TaskStatus status;
  const uint64_t loaded = loaded_lineage_;
  status.ready = loaded != 0 && loaded >= wanted_lineage_;
  status.activity = status.ready ? "serves" : "the chief has not had the variables loaded yet";
  status.step = static_cast<uint64_t>(metrics_.step.value());
  return status;
}

void ParameterServer::Core::OnRunState(const v1::RunState& state) {
  wanted_lineage_ = state.lineage();
  shard_.LearnWorkers(WorkerIncarnations(state));
  if (!IsOver(state)) return;
  MutexLock lock(&mutex_);
  failure_ = GetFailure(state);
  give_up_waiting_ = options_.clock->Now() + kFinishWait;
  changed_.NotifyAll();
}

absl::Status ParameterServer::Core::Wait() {
  MutexLock lock(&mutex_);
  while (!ended_) {
    if (!options_.clock->WaitUntil(give_up_waiting_, &mutex_, &changed_) &&
        options_.clock->Now() >= give_up_waiting_) {
      if (!checkpointer_.is_writing()) return failure_;
      give_up_waiting_ = options_.clock->Now() + kFinishWait;  // Its part of the last export.
    }
  }
  return end_;
}

void ParameterServer::Core::EndWith(const absl::Status& status) {
  // Before Wait may return, and with it the session go.
  session_->StopRegistering();
  MutexLock lock(&mutex_);
  if (ended_) return;
  ended_ = true;
  end_ = status;
  changed_.NotifyAll();
}

absl::Status ParameterServer::Core::Stop() {
  if (stopped_) return absl::OkStatus();
  stopped_ = true;
  if (server_ != nullptr) server_->SetServing(false);
  shard_.Drain();
  shard_timer_.join();
  reporter_.Stop();
  checkpointer_.Stop();
  if (shared_memory_server_ != nullptr) shared_memory_server_->Stop();
  absl::Status status;
  if (server_ != nullptr) status = server_->Stop(kStopGrace);
  if (session_ != nullptr)
    session_->Stop(ChiefSession::Departure::kLeaves);  // Null if it could not listen.
  return status;
}

absl::StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Create(const Options& options) {
  auto core = std::make_unique<Core>(options);
  RETURN_IF_ERROR(core->Listen());
  return std::unique_ptr<ParameterServer>(new ParameterServer(std::move(core)));
}

ParameterServer::ParameterServer(std::unique_ptr<Core> core) : core_(std::move(core)) {}
ParameterServer::~ParameterServer() = default;

const std::string& ParameterServer::address() const { return core_->address(); }
ParameterServiceImpl* ParameterServer::parameter_service() { return core_->parameter_service(); }
grpc::Service* ParameterServer::control_service() { return core_->control_service(); }
BulkService* ParameterServer::bulk_service() { return core_->exchange_service(); }
ParameterShard* ParameterServer::shard() { return core_->shard(); }
const TaskSource* ParameterServer::source() const { return core_.get(); }
absl::Status ParameterServer::Start() { return core_->Start(); }
absl::Status ParameterServer::Wait() { return core_->Wait(); }
void ParameterServer::End() { core_->EndWith(absl::CancelledError("asked to stop")); }
absl::Status ParameterServer::Stop() { return core_->Stop(); }

}  // namespace shoal
