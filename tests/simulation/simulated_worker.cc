#include "tests/simulation/simulated_worker.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "runtime/process/protocol_version.h"
#include "runtime/variables/exchange_groups.h"

namespace shoal {
namespace {

constexpr uint64_t kGroupBytes = 150;  // about two slices

SyncView ViewOf(const v1::RunState& state) {
  SyncView view;
  view.number = state.number();
  view.lineage = state.lineage();
  view.training = state.phase() == v1::RunState::PHASE_TRAINING ||
                  state.phase() == v1::RunState::PHASE_STOPPING;
  view.workers.assign(state.workers().begin(), state.workers().end());
  for (const v1::BatchId& batch : state.skipped()) view.skipped.insert(KeyOf(batch));
  for (const v1::BatchId& batch : state.delivered()) view.delivered.insert(KeyOf(batch));
  view.last_step = state.last_step();
  view.evaluations = VersionSchedule{state.evaluate_every(), state.last_step()};
  return view;
}

v1::BatchId ProtoOf(const BatchKey& batch) {
  v1::BatchId proto;
  proto.set_epoch(batch.epoch);
  proto.set_index(batch.index);
  return proto;
}

}  // namespace

SimulatedWorker::SimulatedWorker(SyncWorld* world, uint32_t index)
    : world_(world),
      index_(index),
      term_(world->term),
      nonce_(absl::StrCat("nonce", world->next_nonce++)) {}

void SimulatedWorker::After(double seconds, std::function<void()> what) {
  world_->network.After(seconds, [self = shared_from_this(), what = std::move(what)] {
    if (self->alive_) what();
  });
}

void SimulatedWorker::Kill() {
  if (!alive_) return;
  alive_ = false;
  if (store_ != nullptr) store_->Shutdown();
  if (incarnation_ != 0 &&
      world_->network.Chance(0.6)) {  // its connection breaks, or nobody notices
    world_->session->Disconnect(world_->network.now(),
                                IdentityOf(term_, v1::JOB_WORKER, index_, incarnation_, 0));
  }
  if (on_death) on_death();
}

// Membership.

void SimulatedWorker::Register() {
  if (incarnation_ != 0) return;
  v1::RegisterTaskRequest request;
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_WORKER);
  request.mutable_identity()->mutable_member()->set_index(index_);
  request.set_nonce(nonce_);
  request.set_protocol(kProtocolVersion);
  v1::ModelDeclaration* model = request.mutable_model();
  for (const v1::VariableSpec& variable : world_->model.variables())
    *model->add_variables() = variable;
  model->set_train_examples(world_->scenario.train_examples);
  model->set_evaluation_blocks(world_->scenario.evaluation_blocks);
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.Register(world->network.now(), request);
      },
      [self = shared_from_this()](const absl::StatusOr<v1::RegisterTaskResponse>& response) {
        if (!self->alive_ || !response.ok() || self->incarnation_ != 0) return;
        self->incarnation_ = response->incarnation();
        self->Heartbeat(true);
      });
  After(1, [this] { Register(); });
}

void SimulatedWorker::Heartbeat(bool repeats) {
  v1::HeartbeatRequest request;
  *request.mutable_identity() = IdentityOf(term_, v1::JOB_WORKER, index_, incarnation_, lineage_);
  request.set_known_state(known_state_);
  if (has_batch_) *request.mutable_batch() = ProtoOf(batch_);
  using Answer = std::pair<absl::Status, std::shared_ptr<v1::RunState>>;
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        Answer answer{session.Heartbeat(world->network.now(), request), nullptr};
        if (answer.first.ok() && session.state().number() != request.known_state()) {
          answer.second = std::make_shared<v1::RunState>(session.state());
        }
        return answer;
      },
      [self = shared_from_this(), batch = batch_, has_batch = has_batch_](const Answer& answer) {
        if (!self->alive_) return;
        if (absl::IsAborted(answer.first)) return self->Kill();  // fenced
        if (answer.first.ok() && has_batch && self->has_batch_ && batch == self->batch_)
          self->batch_is_known_ = true;
        if (answer.second != nullptr) self->OnState(*answer.second);
      });
  if (repeats) After(0.3, [this] { Heartbeat(true); });
}

void SimulatedWorker::OnState(const v1::RunState& state) {
  if (state.number() <= known_state_) return;
  known_state_ = state.number();
  lineage_ = state.lineage();
  if (logic_ == nullptr) {
    if (state.phase() != v1::RunState::PHASE_TRAINING) return;
    CreateLogic(state);
  }
  StoreView view;
  view.lineage = state.lineage();
  view.view = state.view();
  view.ps_incarnations.assign(state.ps_incarnations().begin(), state.ps_incarnations().end());
  store_->SetView(view);
  logic_->OnView(ViewOf(state));
  Pump();
}

void SimulatedWorker::CreateLogic(const v1::RunState& state) {
  const std::vector<uint32_t> owner(state.shard_map().owner().begin(),
                                    state.shard_map().owner().end());
  store_ = std::make_shared<SimulatedStore>(
      world_, MakeExchangeGroups(world_->model.table(), owner, kGroupBytes));
  SyncStepLogic::Options options;
  options.worker = index_;
  options.num_evaluation_blocks = world_->scenario.evaluation_blocks;
  for (const ExchangeGroup& group : store_->groups())
    options.group_versioned.push_back(group.versioned);
  logic_ = std::make_unique<SyncStepLogic>(options, *StepPlan::FromProto(state.plan()));
  for (int set : {0, 1}) {
    parameters_[set] = world_->model.Zeros();
    gradients_[set] = world_->model.Zeros();
    for (const ExchangeGroup& group : store_->groups()) {
      auto& parameters = parameter_pointers_[set].emplace_back();
      auto& gradients = gradient_pointers_[set].emplace_back();
      for (uint32_t slice : group.slices) {
        parameters.push_back(parameters_[set][slice].data());
        gradients.push_back(gradients_[set][slice].data());
      }
    }
  }
}

// The trainer's loop.

void SimulatedWorker::Pump() {
  if (logic_ == nullptr || busy_ || in_next_ || !alive_) return;
  in_next_ = true;
  while (!busy_) {
    const SyncAction action = logic_->Next(world_->network.now());
    if (action.kind == SyncAction::kWait) {
      if (action.wake != absl::InfiniteFuture() && action.wake != wake_) {
        wake_ = action.wake;
        After(absl::ToDoubleSeconds(action.wake - world_->network.now()) + 1e-6,
              [this] { Pump(); });
      }
      break;
    }
    Execute(action);
  }
  in_next_ = false;
}

void SimulatedWorker::Execute(const SyncAction& action) {
  switch (action.kind) {
    case SyncAction::kWait:
      return;
    case SyncAction::kQueryVersions:
    case SyncAction::kPull:
      return StartPulls(action);
    case SyncAction::kEvaluate:
      return Evaluate(action);
    case SyncAction::kCompute:
      return BeginCompute(action);
    case SyncAction::kReportBad: {
      v1::ReportBadBatchRequest request;
      *request.mutable_identity() =
          IdentityOf(term_, v1::JOB_WORKER, index_, incarnation_, action.lineage);
      *request.mutable_batch() = ProtoOf(action.batch);
      request.set_step(action.version);
      request.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
      return ReportBad(request, action.ticket);
    }
  }
}

void SimulatedWorker::StartPulls(const SyncAction& action) {
  for (uint32_t group : action.groups) {
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = action.lineage;
    exchange.pull = true;
    exchange.versions_only = action.kind == SyncAction::kQueryVersions;
    exchange.pull_version = action.version;
    exchange.pull_data = parameter_pointers_[action.parameter_set][group].data();
    exchange.park = absl::Seconds(2);
    store_->Start(exchange, [self = shared_from_this(), ticket = action.ticket,
                             group](const ExchangeResult& result) {
      if (!self->alive_) return;
      self->logic_->OnExchange(self->world_->network.now(), ticket, group, result);
      self->Pump();
    });
  }
}

void SimulatedWorker::Evaluate(const SyncAction& action) {
  busy_ = true;
  After(world_->network.Uniform(0.01, 0.1), [this, action] {
    const uint64_t hash = SimulatedModel::HashOf(parameters_[action.parameter_set]);
    v1::ReportEvaluationRequest request;
    *request.mutable_identity() =
        IdentityOf(term_, v1::JOB_WORKER, index_, incarnation_, action.lineage);
    request.set_version(action.version);
    request.set_block(action.block);
    request.set_loss_sum(SimulatedModel::EvaluationLoss(hash, action.block));
    request.set_examples(1);
    ReportEvaluation(request, action.ticket);
  });
}

void SimulatedWorker::ReportEvaluation(const v1::ReportEvaluationRequest& request,
                                       uint64_t ticket) {
  auto acknowledged = std::make_shared<bool>(false);
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.ReportEvaluation(world->network.now(), request);
      },
      [self = shared_from_this(), ticket, acknowledged](const absl::Status&) {
        if (!self->alive_ || *acknowledged) return;
        *acknowledged = true;  // or the lineage is over: then the blocks are of no use
        self->busy_ = false;
        self->logic_->OnEvaluated(ticket);
        self->Pump();
      });
  After(0.5, [this, request, ticket, acknowledged] {
    if (!*acknowledged) {
      *acknowledged = true;
      ReportEvaluation(request, ticket);
    }
  });
}

void SimulatedWorker::ReportBad(const v1::ReportBadBatchRequest& request, uint64_t ticket) {
  auto acknowledged = std::make_shared<bool>(false);
  world_->CallChief(
      [world = world_, request](TrainingSession& session) {
        return session.ReportBadBatch(world->network.now(), request);
      },
      [self = shared_from_this(), ticket, acknowledged](const absl::Status&) {
        if (!self->alive_) return;
        *acknowledged = true;
        self->logic_->OnReported(ticket);
        self->Pump();
      });
  After(0.5, [this, request, ticket, acknowledged] {
    if (!*acknowledged) ReportBad(request, ticket);
  });
}

// Computing: gradients become final one group after another, and are pushed at once.

bool SimulatedWorker::IsDangerous(const BatchKey& batch) const {
  return world_->scenario.deadly.count(batch) != 0 || world_->scenario.flaky.count(batch) != 0;
}

bool SimulatedWorker::IsBadSlice(const BatchKey& batch, uint32_t slice) const {
  if (world_->scenario.non_finite.count(batch) == 0) return false;
  if (slice == world_->model.table().report_slice()) return true;  // the last to become final
  return MixBits(world_->scenario.seed + 31 * batch.index + slice) % 4 == 0;
}

void SimulatedWorker::BeginCompute(const SyncAction& action) {
  busy_ = true;
  has_batch_ = true;
  batch_is_known_ = batch_is_known_ && batch_ == action.batch;
  batch_ = action.batch;
  if (IsDangerous(action.batch) &&
      !batch_is_known_) {  // so that a crash is blamed on the right batch
    Heartbeat(false);
    After(0.2, [this, action] { BeginCompute(action); });
    return;
  }
  const uint32_t num_groups = static_cast<uint32_t>(store_->groups().size());
  const bool dies =
      world_->scenario.deadly.count(action.batch) != 0 ||
      (world_->scenario.flaky.count(action.batch) != 0 && world_->network.Chance(0.5));
  // One that dies has often delivered some of its groups.
  const uint32_t dies_before =
      dies ? static_cast<uint32_t>(world_->network.Below(num_groups + 1)) : UINT32_MAX;
  After(world_->network.Uniform(0.02, 0.2), [this, action, dies_before] {
    ComputeGroup(action, SimulatedModel::HashOf(parameters_[action.parameter_set]), 0, dies_before);
  });
}

void SimulatedWorker::ComputeGroup(const SyncAction& action, uint64_t values_hash, uint32_t group,
                                   uint32_t dies_before) {
  if (group == dies_before) return Crash();
  if (group == store_->groups().size()) return EndCompute(action, values_hash);
  if (store_->groups()[group].versioned) PushGroup(action, values_hash, group);
  After(world_->network.Uniform(0, 0.04), [this, action, values_hash, group, dies_before] {
    ComputeGroup(action, values_hash, group + 1, dies_before);
  });
}

void SimulatedWorker::PushGroup(const SyncAction& action, uint64_t values_hash, uint32_t group) {
  const absl::Time now = world_->network.now();
  bool is_finite = true;
  for (uint32_t slice : store_->groups()[group].slices) {
    std::vector<float>& gradient = gradients_[action.gradient_set][slice];
    world_->model.Contribution(values_hash, action.batch, slice,
                               parameters_[action.parameter_set][slice], gradient.data());
    if (!IsBadSlice(action.batch, slice)) continue;
    is_finite = false;
    gradient[gradient.size() / 2] = std::numeric_limits<float>::quiet_NaN();
  }
  if (!is_finite && world_->scenario.workers_check_finite)
    return logic_->OnNotPushed(now, action.ticket, group);

  Exchange exchange;
  exchange.group = group;
  exchange.lineage = action.lineage;
  exchange.push = true;
  exchange.batch = action.batch;
  exchange.step = action.version;
  exchange.position = action.position;
  exchange.batch_examples = action.batch_examples;
  exchange.report = SimulatedModel::Report(values_hash, action.batch, action.batch_examples);
  exchange.push_data = gradient_pointers_[action.gradient_set][group].data();
  exchange.pull = action.pull_next;
  exchange.pull_version = action.version + 1;
  exchange.pull_data = parameter_pointers_[action.next_parameter_set][group].data();
  exchange.park = absl::Seconds(2);
  store_->Start(exchange, [self = shared_from_this(), ticket = action.ticket,
                           group](const ExchangeResult& result) {
    if (!self->alive_) return;
    self->logic_->OnExchange(self->world_->network.now(), ticket, group, result);
    self->Pump();
  });
}

void SimulatedWorker::EndCompute(const SyncAction& action, uint64_t values_hash) {
  if (SimulatedModel::HashOf(parameters_[action.parameter_set]) != values_hash) {
    world_->Fail(absl::StrCat("worker/", index_, ": parameters changed while step ", action.version,
                              " was computed"));
  }
  busy_ = false;
  has_batch_ = false;
  Pump();
}

void SimulatedWorker::Crash() {
  // The launcher saw the signal.
  v1::ReportBadBatchRequest request;
  request.mutable_identity()->set_run_id("simulated");
  request.mutable_died()->set_job(v1::JOB_WORKER);
  request.mutable_died()->set_index(index_);
  request.mutable_identity()->set_incarnation(incarnation_);
  *request.mutable_batch() = ProtoOf(batch_);
  request.set_reason(v1::ReportBadBatchRequest::REASON_CRASH);
  (void)world_->session->ReportBadBatch(world_->network.now(), request);
  Kill();
}

}  // namespace shoal
