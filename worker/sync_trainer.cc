#include "worker/sync_trainer.h"

#include <utility>

#include "base/log.h"

namespace shoal {
namespace {

// A parked pull is asked for again after this long; who is missing is heard of then.
constexpr absl::Duration kPark = absl::Seconds(2);

std::set<BatchKey> KeysOf(const google::protobuf::RepeatedPtrField<v1::BatchId>& batches) {
  std::set<BatchKey> keys;
  for (const v1::BatchId& batch : batches) keys.insert(BatchKey{batch.epoch(), batch.index()});
  return keys;
}

SyncView ViewOf(const v1::RunState& state) {
  SyncView view;
  view.number = state.number();
  view.lineage = state.lineage();
  view.training = state.phase() == v1::RunState::PHASE_TRAINING ||
                  state.phase() == v1::RunState::PHASE_STOPPING;
  view.workers.assign(state.workers().begin(), state.workers().end());
  view.skipped = KeysOf(state.skipped());
  view.delivered = KeysOf(state.delivered());
  view.last_step = state.last_step();
  view.evaluations = VersionSchedule{state.evaluate_every(), state.last_step()};
  return view;
}

StoreView StoreViewOf(const v1::RunState& state, uint64_t term) {
  StoreView view;
  view.term = term;
  view.view = state.view();
  view.lineage = state.lineage();
  view.ps_addresses.assign(state.ps_addresses().begin(), state.ps_addresses().end());
  view.ps_incarnations.assign(state.ps_incarnations().begin(), state.ps_incarnations().end());
  return view;
}

SyncStepLogic::Options LogicOptions(const TrainerOptions& options) {
  SyncStepLogic::Options logic;
  logic.worker = options.worker;
  for (const ExchangeGroup& group : options.store->groups())
    logic.group_versioned.push_back(group.versioned);
  logic.num_evaluation_blocks =
      options.test == nullptr ? 0 : NumEvaluationBlocks(options.test_plan);
  return logic;
}

}  // namespace

SyncTrainer::SyncTrainer(const TrainerOptions& options)
    : options_(options),
      plan_(options.steps),
      train_batches_(*options.train, options.train_plan, PrefetcherOptions()),
      test_batches_(options.test != nullptr ? *options.test : *options.train, options.test_plan,
                    PrefetcherOptions()),
      logic_(LogicOptions(options), options.steps) {
  const size_t most = options_.store->groups().size() * VariableStore::kMaxExchangesPerGroup;
  for (size_t i = 0; i < most; ++i) {
    flights_.push_back(std::make_unique<Flight>());
    flights_.back()->trainer = this;
  }
}

SyncTrainer::~SyncTrainer() = default;

void SyncTrainer::OnState(const v1::RunState& state) {
  MutexLock lock(&mutex_);
  new_state_ = state;
  woken_ = true;
  changed_.NotifyAll();
}

Trainer::Progress SyncTrainer::progress() const {
  MutexLock lock(&mutex_);
  Progress progress;
  progress.step = logic_.step();
  progress.activity = logic_.Activity();
  progress.batch = in_hand_;
  return progress;
}

bool SyncTrainer::TakeState() {
  std::optional<v1::RunState> state;
  {
    MutexLock lock(&mutex_);
    state = std::exchange(new_state_, std::nullopt);
  }
  if (!state.has_value()) return false;
  if (state->phase() == v1::RunState::PHASE_DONE || state->phase() == v1::RunState::PHASE_FAILED) {
    MutexLock lock(&mutex_);
    end_ = state->phase() == v1::RunState::PHASE_DONE
               ? absl::OkStatus()
               : absl::FailedPreconditionError(state->message());
    return true;
  }
  // The store first: it may end exchanges of the old lineage, whose callbacks take the mutex.
  options_.store->SetView(StoreViewOf(*state, options_.identity().term()));
  MutexLock lock(&mutex_);
  logic_.OnView(ViewOf(*state));
  return true;
}

absl::Status SyncTrainer::Run() {
  while (true) {
    TakeState();
    SyncAction action;
    {
      MutexLock lock(&mutex_);
      if (end_.has_value()) return *end_;
      if (!error_.ok()) return error_;
      action = logic_.Next(options_.clock->Now());
      if (action.kind == SyncAction::kWait) {
        while (!woken_ && options_.clock->WaitUntil(action.wake, &mutex_, &changed_)) {
        }
        woken_ = false;
        continue;
      }
    }
    Execute(action);
  }
}

void SyncTrainer::Execute(const SyncAction& action) {
  switch (action.kind) {
    case SyncAction::kWait:
      break;
    case SyncAction::kQueryVersions:
    case SyncAction::kPull:
      StartAll(action);
      break;
    case SyncAction::kEvaluate:
      Evaluate(action);
      break;
    case SyncAction::kCompute:
      Compute(action);
      break;
    case SyncAction::kReportBad:
      ReportBad(action);
      break;
  }
}

void SyncTrainer::StartAll(const SyncAction& action) {
  for (uint32_t group : action.groups) {
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = action.lineage;
    exchange.pull = true;
    if (action.kind == SyncAction::kQueryVersions) {
      exchange.versions_only = true;
    } else {
      exchange.pull_version = action.version;
      exchange.pull_data = options_.replica->pull_data(action.parameter_set, group);
      exchange.park = kPark;
    }
    Start(exchange, action.ticket);
  }
}

void SyncTrainer::Compute(const SyncAction& action) {
  {
    MutexLock lock(&mutex_);
    in_hand_ = action.batch;
  }
  MarkInHand(options_, action.batch);
  absl::StatusOr<const LoadedBatch*> batch =
      train_batches_.Take(action.batch.epoch, static_cast<int64_t>(action.batch.index));
  if (!batch.ok()) {
    MutexLock lock(&mutex_);
    error_ = batch.status();
    return;
  }
  // The same place of the next step is the best guess for what comes next.
  if (plan_.At(action.version + 1).num_batches > action.position) {
    const BatchKey next = plan_.BatchAt(action.version + 1, action.position);
    train_batches_.Schedule(next.epoch, static_cast<int64_t>(next.index));
  }
  const absl::Status status = options_.replica->Train(
      **batch, action.parameter_set, action.gradient_set,
      [&](uint32_t group, bool finite, const BatchReport& report) {
        if (!finite) {
          MutexLock lock(&mutex_);
          logic_.OnNotPushed(options_.clock->Now(), action.ticket, group);
          return;
        }
        Exchange exchange;
        exchange.group = group;
        exchange.lineage = action.lineage;
        exchange.push = true;
        exchange.batch = action.batch;
        exchange.step = action.version;
        exchange.position = action.position;
        exchange.batch_examples = action.batch_examples;
        exchange.report = report;
        exchange.push_kinds = options_.replica->push_kinds(group);
        exchange.push_data = options_.replica->push_data(action.gradient_set, group);
        exchange.push_bytes = options_.replica->push_bytes(group);
        if (action.pull_next) {
          exchange.pull = true;
          exchange.pull_version = action.version + 1;
          exchange.pull_data = options_.replica->pull_data(action.next_parameter_set, group);
          exchange.park = kPark;
        }
        Start(exchange, action.ticket);
      });
  train_batches_.Release(*batch);
  if (options_.mark != nullptr) options_.mark->Clear();
  MutexLock lock(&mutex_);
  in_hand_ = std::nullopt;
  if (!status.ok()) error_ = status;
}

void SyncTrainer::Evaluate(const SyncAction& action) {
  absl::StatusOr<const LoadedBatch*> batch =
      test_batches_.Take(0, static_cast<int64_t>(action.block));
  BatchResult result;
  absl::Status status = batch.status();
  if (batch.ok()) {
    status = options_.replica->Evaluate(**batch, action.parameter_set, &result);
    test_batches_.Release(*batch);
  }
  if (status.ok()) {
    v1::ReportEvaluationRequest request;
    *request.mutable_identity() = options_.identity();
    request.mutable_identity()->set_lineage(action.lineage);
    request.set_version(action.version);
    request.set_block(action.block);
    request.set_loss_sum(result.loss_sum);
    request.set_correct(result.correct);
    request.set_examples(result.examples);
    v1::ReportEvaluationResponse response;
    status = CallUntilAnswered(
        options_.clock,
        [this] {
          MutexLock lock(&mutex_);
          return new_state_.has_value() && (new_state_->phase() == v1::RunState::PHASE_FAILED ||
                                            new_state_->phase() == v1::RunState::PHASE_DONE);
        },
        [&] { return options_.chief->ReportEvaluation(request, &response); });
    if (absl::IsAborted(status)) status = absl::OkStatus();  // another lineage: the new view tells
  }
  MutexLock lock(&mutex_);
  if (!status.ok()) {
    error_ = status;
    return;
  }
  logic_.OnEvaluated(action.ticket);
}

void SyncTrainer::ReportBad(const SyncAction& action) {
  LOG(WARNING) << "batch " << action.batch.index << " of epoch " << action.batch.epoch
               << " is not finite at step " << action.version;
  v1::ReportBadBatchRequest request;
  *request.mutable_identity() = options_.identity();
  request.mutable_identity()->set_lineage(action.lineage);
  request.mutable_batch()->set_epoch(action.batch.epoch);
  request.mutable_batch()->set_index(action.batch.index);
  request.set_step(action.version);
  request.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
  request.set_detail("gradient or loss is not finite");
  v1::ReportBadBatchResponse response;
  const absl::Status status = CallUntilAnswered(
      options_.clock,
      [this] {
        MutexLock lock(&mutex_);
        return new_state_.has_value() && (new_state_->phase() == v1::RunState::PHASE_FAILED ||
                                          new_state_->phase() == v1::RunState::PHASE_DONE);
      },
      [&] { return options_.chief->ReportBadBatch(request, &response); });
  MutexLock lock(&mutex_);
  if (!status.ok() && !absl::IsAborted(status)) {
    error_ = status;
    return;
  }
  logic_.OnReported(action.ticket);
}

void SyncTrainer::Start(const Exchange& exchange, uint64_t ticket) {
  Flight* flight = nullptr;
  {
    MutexLock lock(&mutex_);
    for (auto& candidate : flights_) {
      if (!candidate->used) {
        flight = candidate.get();
        break;
      }
    }
    CHECK(flight != nullptr) << "more exchanges under way than a store allows";
    flight->used = true;
    flight->ticket = ticket;
    flight->group = exchange.group;
  }
  options_.store->Start(exchange, [flight](const ExchangeResult& result) {
    flight->trainer->OnDone(flight, result);
  });
}

void SyncTrainer::OnDone(Flight* flight, const ExchangeResult& result) {
  MutexLock lock(&mutex_);
  logic_.OnExchange(options_.clock->Now(), flight->ticket, flight->group, result);
  if (error_.ok()) error_ = HopelessExchange(result.status);
  flight->used = false;
  woken_ = true;
  changed_.NotifyAll();
}

}  // namespace shoal
