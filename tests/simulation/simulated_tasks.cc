#include "tests/simulation/simulated_tasks.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "chief/chief_task.h"
#include "proto/v1/chief_service.pb.h"
#include "ps/parameter_server.h"
#include "runtime/checkpoint/finish_detector.h"
#include "runtime/config/run_config.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/process/protocol_version.h"
#include "runtime/rpc/chief_session.h"
#include "runtime/rpc/grpc_chief_service.h"
#include "runtime/rpc/run_state.h"
#include "runtime/variables/exchange_groups.h"
#include "tests/simulation/simulated_program.h"
#include "worker/replica/replica.h"
#include "worker/state_feed.h"

namespace shoal {
namespace {

constexpr uint64_t kGroupBytes = 150;  // A group has about two slices.
constexpr absl::Duration kLatecomers = absl::Seconds(10);

absl::Duration LeaseOf(const SimulatedRun& run) {
  return absl::Seconds(run.run.cluster().lease_seconds());
}

absl::Duration PatienceOf(const SimulatedRun& run) {
  return absl::Seconds(run.run.cluster().wait_seconds());
}

// No task calls the process any more, and all callers have their answers.
void StopServing(const TaskEnvironment& environment, SimulatedProcess* process) {
  process->chief = nullptr;
  process->chief_service = nullptr;
  process->ps_service = nullptr;
  process->bulk = nullptr;
  while (process->serving > 0) environment.fibers->Sleep(absl::Milliseconds(10));
}

}  // namespace

absl::Status RunSimulatedChief(const TaskEnvironment& environment, SimulatedProcess* process,
                               std::function<void()>* /*end*/) {
  Fibers* const fibers = environment.fibers;
  const auto files = NewSimulatedFileSystem(environment.disks, fibers, process);
  TaskOptions options;
  options.run = environment.run->run;
  options.task = {Job::kChief, 0};
  options.clock = fibers->clock();
  options.file_system = files.get();
  const auto connect = [&environment, process](uint32_t, const std::string& address) {
    return NewSimulatedParameterClient(environment.network, process, address);
  };
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChiefTask> task,
      ChiefTask::Create(options, environment.run->num_ps, connect, ChiefTask::IfHeld::kNotAsked));
  if (task->is_finished()) return absl::OkStatus();
  RETURN_IF_ERROR(task->RecordStart(ClusterSpec()));
  Chief* const chief = task->chief();
  environment.on_chief(process, chief);
  GrpcChiefService<Chief> service(chief);
  process->chief = chief;
  process->chief_service = &service;
  const auto is_over = [chief] {
    v1::GetRunStatusResponse response;
    chief->GetRunStatus(v1::GetRunStatusRequest(), &response).IgnoreError();
    return IsOver(response.state());
  };
  while (process->alive && !is_over()) fibers->Sleep(absl::Milliseconds(100));
  absl::Status status = absl::CancelledError("killed");
  if (process->alive) {
    status = task->WaitAndConclude();
    const absl::Time until = fibers->now() + kLatecomers;
    while (status.ok() && process->alive && fibers->now() < until &&
           !chief->CloseRegistration(/*if_all_notified=*/true)) {
      fibers->Sleep(absl::Milliseconds(100));
    }
  }
  environment.on_chief(process, nullptr);
  StopServing(environment, process);
  return status;
}

absl::Status RunSimulatedPs(const TaskEnvironment& environment, SimulatedProcess* process,
                            uint32_t index, std::function<void()>* end) {
  Fibers* const fibers = environment.fibers;
  const auto files = NewSimulatedFileSystem(environment.disks, fibers, process);
  const auto client = NewSimulatedChiefClient(environment.network, process);
  FinishDetector ending(files.get(), fibers->clock(), environment.run->run,
                        LeaseOf(*environment.run));
  ParameterServer::Options options;
  options.session.task.index = index;
  options.chief = client.get();
  options.clock = fibers->clock();
  options.file_system = files.get();
  options.session.shared_run =
      std::make_shared<v1::RunConfig>(SharedByAllTasks(environment.run->run));
  options.session.nonce = process->address;
  options.address = process->address;
  options.session.chief_address = "chief";
  options.session.lease = LeaseOf(*environment.run);
  options.threads = environment.run->ps_threads;
  options.session.register_patience = PatienceOf(*environment.run);
  options.session.is_over = [&ending] { return ending.IsOver(); };
  ASSIGN_OR_RETURN(const std::unique_ptr<ParameterServer> server, ParameterServer::Create(options));
  *end = [&server] { server->End(); };
  process->ps_service = server->control_service();
  process->bulk = server->bulk_service();
  absl::Status status = process->alive ? server->Start() : absl::CancelledError("killed");
  if (absl::IsOutOfRange(status))
    status = absl::OkStatus();  // The run is over.
  else if (status.ok())
    status = server->Wait();
  *end = nullptr;
  process->ps_service = nullptr;
  process->bulk = nullptr;
  const absl::Status stopped = server->Stop();
  StopServing(environment, process);
  return status.ok() ? stopped : status;
}

namespace {

BatchPlan PlanOf(uint64_t examples, uint64_t batch, uint64_t seed, bool shuffle) {
  BatchPlanOptions options;
  options.num_examples = static_cast<int64_t>(examples);
  options.batch_size = static_cast<int64_t>(batch);
  options.seed = seed;
  options.shuffle = shuffle;
  return *BatchPlan::Create(options);
}

}  // namespace

BatchPlan TrainPlanOf(const SimulatedRun& run) {
  return PlanOf(run.train_examples, run.run.batch_size(), run.seed, true);
}

namespace {

SimulatedProgram::Options ProgramOptions(const TaskEnvironment& environment,
                                         SimulatedProcess* process, uint32_t index) {
  const SimulatedRun& run = *environment.run;
  SimulatedProgram::Options options;
  options.model = environment.model;
  options.synchronous = run.synchronous;
  options.fibers = environment.fibers;
  options.random = environment.random;
  options.slowness = index == 0 ? run.slow_worker : 1;
  options.is_bad = [&run, model = environment.model](const BatchKey& batch, uint32_t slice) {
    if (run.non_finite.count(batch) == 0) return false;
    if (slice == model->table().report_slice()) return true;  // The last to become final.
    return MixBits(run.seed + 31 * batch.index + slice) % 4 == 0;
  };
  options.begins = [process](const BatchKey& batch) { process->batch = batch; };
  options.dies = [&environment, &run](const BatchKey& batch) {
    return run.deadly.count(batch) > 0 ||
           (run.flaky.count(batch) > 0 && environment.random->Chance(0.5));
  };
  options.crash = [&environment, process] { environment.crash(process); };
  options.keys_of = [&run, tables = &environment.model->tables()](const BatchKey& batch) {
    return tables->KeysOfBatch(TrainPlanOf(run), batch);
  };
  return options;
}

absl::Status TrainWith(const TaskEnvironment& environment, SimulatedProcess* process,
                       uint32_t index, ChiefClient* client, ChiefSession* session, StateFeed* feed,
                       SimulatedProgram* program) {
  ASSIGN_OR_RETURN(const v1::RunState state, feed->WaitForPlan());
  if (state.phase() == v1::RunState::PHASE_DONE) return GetFailure(state);
  const SimulatedRun& run = *environment.run;
  ASSIGN_OR_RETURN(const StepPlan steps, StepPlan::FromProto(state.plan()));
  const SliceTable& table = environment.model->table();
  const std::vector<uint32_t> owner(state.shard_map().owner().begin(),
                                    state.shard_map().owner().end());
  RemoteVariableStore::Options store_options;
  const v1::Identity identity = session->identity();
  store_options.run_id = identity.run_id();
  store_options.worker_index = index;
  store_options.incarnation = identity.incarnation();
  store_options.groups = MakeExchangeGroups(table, owner, kGroupBytes);
  store_options.connect = [&environment, process](const std::string& address) {
    return NewSimulatedBulkChannel(environment.network, process, address);
  };
  RemoteVariableStore store(table, store_options, environment.fibers->clock());
  Replica replica(program, &table, &store.groups());
  const SimulatedTables* const tables = &environment.model->tables();
  const auto train = NewSimulatedDataset(run.train_examples, tables, /*first=*/0);
  const auto test = NewSimulatedDataset(std::max<uint64_t>(run.evaluation_blocks, 1), tables,
                                        SimulatedTables::kFirstTestExample);
  TrainerOptions options{
      .worker = index,
      .clock = environment.fibers->clock(),
      .replica = &replica,
      .store = &store,
      .chief = client,
      .train = train.get(),
      .test = run.evaluation_blocks > 0 ? test.get() : nullptr,
      .train_plan = TrainPlanOf(run),
      .test_plan = PlanOf(std::max<uint64_t>(run.evaluation_blocks, 1), 1, 0, false),
      .steps = steps,
      .identity = [session] { return session->identity(); }};
  ProgressLinks progress;
  progress.session = session;
  progress.check_links = [&store] { return store.CheckLinks(); };
  return TrainUntilOver(state.synchronous(), options, progress, feed);
}

}  // namespace

absl::Status RunSimulatedWorker(const TaskEnvironment& environment, SimulatedProcess* process,
                                uint32_t index, std::function<void()>* end) {
  Fibers* const fibers = environment.fibers;
  const SimulatedRun& run = *environment.run;
  const auto files = NewSimulatedFileSystem(environment.disks, fibers, process);
  const auto client = NewSimulatedChiefClient(environment.network, process);
  FinishDetector ending(files.get(), fibers->clock(), run.run, LeaseOf(run));
  ChiefSession::Options options;
  options.task = {Job::kWorker, index};
  options.shared_run = std::make_shared<v1::RunConfig>(SharedByAllTasks(run.run));
  options.nonce = process->address;
  options.chief_address = "chief";
  options.lease = LeaseOf(run);
  options.register_patience = PatienceOf(run);
  options.is_over = [&ending] { return ending.IsOver(); };
  StateFeed feed(fibers->clock(), /*abandon=*/nullptr);
  ChiefSession session(client.get(), fibers->clock(), options, &feed);
  *end = [&feed, &session] {
    feed.End(absl::CancelledError("killed"));
    session.StopRegistering();
  };
  SimulatedProgram program(ProgramOptions(environment, process, index));
  v1::ModelDeclaration model;
  for (const v1::VariableSpec& spec : program.variables()) *model.add_variables() = spec;
  for (const v1::MetricSpec& metric : program.metrics()) *model.add_metrics() = metric;
  model.set_train_examples(run.train_examples);
  model.set_test_examples(run.evaluation_blocks);
  model.set_evaluation_blocks(run.evaluation_blocks);
  model.set_compute_fingerprint(program.compute_fingerprint());
  model.set_data_fingerprint(1);
  absl::Status status = process->alive ? session.Register(&model) : absl::CancelledError("killed");
  if (absl::IsOutOfRange(status)) {
    status = absl::OkStatus();  // The run has ended without this worker.
  } else if (status.ok()) {
    session.Start();
    status = TrainWith(environment, process, index, client.get(), &session, &feed, &program);
    session.Stop(ChiefSession::Departure::kLeaves);
  }
  *end = nullptr;
  return status;
}

}  // namespace shoal
