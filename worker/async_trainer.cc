#include "worker/async_trainer.h"

#include <cmath>
#include <utility>

#include "base/log.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

AsyncView ViewOf(const v1::RunState& state) {
  AsyncView view;
  view.number = state.number();
  view.lineage = state.lineage();
  view.training = state.phase() == v1::RunState::PHASE_TRAINING;
  view.ps_incarnations.assign(state.ps_incarnations().begin(), state.ps_incarnations().end());
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

AsyncStepLogic::Options LogicOptions(const TrainerOptions& options) {
  AsyncStepLogic::Options logic;
  logic.groups = options.store->groups();
  return logic;
}

LeaseAnswer AnswerOf(const v1::LeaseBatchesResponse& response) {
  LeaseAnswer answer;
  for (const v1::LeaseBatchesResponse::Lease& lease : response.leases()) {
    answer.leases.push_back(
        {{lease.batch().epoch(), lease.batch().index()}, {lease.ps().begin(), lease.ps().end()}});
  }
  for (const v1::LeaseBatchesResponse::Evaluation& block : response.evaluations()) {
    answer.evaluations.push_back({block.version(), block.block()});
  }
  return answer;
}

void AddTo(const std::vector<BatchKey>& batches,
           google::protobuf::RepeatedPtrField<v1::BatchId>* list) {
  for (const BatchKey& batch : batches) {
    v1::BatchId* id = list->Add();
    id->set_epoch(batch.epoch);
    id->set_index(batch.index);
  }
}

}  // namespace

AsyncTrainer::AsyncTrainer(const TrainerOptions& options)
    : options_(options),
      train_batches_(*options.train, options.train_plan, PrefetcherOptions()),
      test_batches_(options.test != nullptr ? *options.test : *options.train, options.test_plan,
                    PrefetcherOptions()),
      logic_(LogicOptions(options), options.steps) {
  const std::vector<ExchangeGroup>& groups = options_.store->groups();
  for (const ExchangeGroup& group : groups) pushed_data_.emplace_back(group.slices.size());
  for (size_t i = 0; i < groups.size() * VariableStore::kMaxExchangesPerGroup; ++i) {
    flights_.push_back(std::make_unique<Flight>());
    flights_.back()->trainer = this;
  }
  leases_ = std::thread([this] { RunLeases(); });
}

AsyncTrainer::~AsyncTrainer() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    lease_changed_.NotifyAll();
  }
  leases_.join();
}

void AsyncTrainer::OnState(const v1::RunState& state) {
  MutexLock lock(&mutex_);
  new_state_ = state;
  Wake();
}

Trainer::Progress AsyncTrainer::progress() const {
  MutexLock lock(&mutex_);
  Progress progress;
  progress.step = logic_.num_finished();
  progress.activity = logic_.Activity();
  progress.batch = logic_.batch_in_hand();
  return progress;
}

bool AsyncTrainer::TakeState() {
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
  // The store first: a lease of a view may only be asked for when nothing goes to a former ps.
  options_.store->SetView(StoreViewOf(*state, options_.identity().term()));
  MutexLock lock(&mutex_);
  logic_.OnView(ViewOf(*state));
  view_ = state->view();
  lineage_ = state->lineage();
  return true;
}

absl::Status AsyncTrainer::Run() {
  while (true) {
    TakeState();
    AsyncAction action;
    {
      MutexLock lock(&mutex_);
      if (end_.has_value()) return *end_;
      if (!error_.ok()) return error_;
      action = logic_.Next(options_.clock->Now());
      if (action.kind == AsyncAction::kWait) {
        while (!woken_ && options_.clock->WaitUntil(action.wake, &mutex_, &changed_)) {
        }
        woken_ = false;
        continue;
      }
    }
    Execute(action);
  }
}

void AsyncTrainer::Execute(const AsyncAction& action) {
  switch (action.kind) {
    case AsyncAction::kWait:
      break;
    case AsyncAction::kLease: {
      MutexLock lock(&mutex_);
      must_lease_ = true;
      lease_changed_.NotifyAll();
      break;
    }
    case AsyncAction::kPull:
      PullAll(action);
      break;
    case AsyncAction::kEvaluate:
      Evaluate(action);
      break;
    case AsyncAction::kCompute:
      Compute(action);
      break;
    case AsyncAction::kReportBad:
      ReportBad(action);
      break;
  }
}

void AsyncTrainer::PullAll(const AsyncAction& action) {
  for (const uint32_t group : action.groups) {
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = action.lineage;
    exchange.pull = true;
    exchange.pull_data = options_.replica->pull_data(action.parameter_set, group);
    Start(exchange, action.ticket);
  }
}

void AsyncTrainer::Compute(const AsyncAction& action) {
  std::optional<BatchKey> next;
  {
    MutexLock lock(&mutex_);
    next = logic_.next_batch();
  }
  MarkInHand(options_, action.batch);
  absl::StatusOr<const LoadedBatch*> batch =
      train_batches_.Take(action.batch.epoch, static_cast<int64_t>(action.batch.index));
  if (!batch.ok()) {
    MutexLock lock(&mutex_);
    error_ = batch.status();
    return;
  }
  train_batches_.Forget();  // what was read ahead for leases that are gone
  if (next.has_value()) train_batches_.Schedule(next->epoch, static_cast<int64_t>(next->index));
  // All exchanges of the batch before are done, and with them its contributions.
  const absl::Status status =
      options_.replica->Train(**batch, action.parameter_set, /*contribution_set=*/0,
                              [&](uint32_t group, bool finite, const BatchReport& report) {
                                if (finite && std::isfinite(report.loss_sum)) {
                                  PushGroup(action, group, report);
                                  return;
                                }
                                MutexLock lock(&mutex_);
                                logic_.OnNotPushed(action.ticket, group);
                              });
  train_batches_.Release(*batch);
  if (options_.mark != nullptr) options_.mark->Clear();
  if (status.ok()) return;
  MutexLock lock(&mutex_);
  error_ = status;
}

void AsyncTrainer::PushGroup(const AsyncAction& action, uint32_t group, const BatchReport& report) {
  Exchange exchange;
  exchange.group = group;
  exchange.lineage = action.lineage;
  exchange.pull = true;
  exchange.pull_data = options_.replica->pull_data(action.next_parameter_set, group);
  {
    MutexLock lock(&mutex_);
    exchange.push = logic_.WantsAnyPush(group);
    // Unchanged until the last exchange of the ticket is done.
    exchange.pulled_versions = logic_.PulledVersions(group).data();
    const absl::Span<const uint8_t> wants = logic_.WantsPush(group);
    const void* const* data = options_.replica->push_data(/*set=*/0, group);
    for (size_t i = 0; i < wants.size(); ++i) {
      pushed_data_[group][i] = wants[i] != 0 ? data[i] : nullptr;
    }
  }
  if (exchange.push) {
    exchange.batch = action.batch;
    exchange.batch_examples = action.batch_examples;
    exchange.report = report;
    exchange.push_kinds = options_.replica->push_kinds(group);
    exchange.push_data = pushed_data_[group].data();
    exchange.push_bytes = options_.replica->push_bytes(group);
  }
  Start(exchange, action.ticket);
}

absl::Status AsyncTrainer::Call(const std::function<absl::Status()>& call) {
  const absl::Status status = CallUntilAnswered(
      options_.clock,
      [this] {
        MutexLock lock(&mutex_);
        return new_state_.has_value() && new_state_->phase() == v1::RunState::PHASE_FAILED;
      },
      call);
  // Another lineage, or fenced: the run's state tells.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

void AsyncTrainer::Evaluate(const AsyncAction& action) {
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
    status = Call([&] { return options_.chief->ReportEvaluation(request, &response); });
  }
  MutexLock lock(&mutex_);
  if (!status.ok()) {
    error_ = status;
    return;
  }
  logic_.OnEvaluated(action.ticket);
}

void AsyncTrainer::ReportBad(const AsyncAction& action) {
  LOG(WARNING) << "batch " << action.batch.index << " of epoch " << action.batch.epoch
               << " is not finite";
  v1::ReportBadBatchRequest request;
  *request.mutable_identity() = options_.identity();
  request.mutable_identity()->set_lineage(action.lineage);
  request.mutable_batch()->set_epoch(action.batch.epoch);
  request.mutable_batch()->set_index(action.batch.index);
  request.set_reason(v1::ReportBadBatchRequest::REASON_NON_FINITE);
  request.set_detail("gradient or loss is not finite");
  v1::ReportBadBatchResponse response;
  const absl::Status status =
      Call([&] { return options_.chief->ReportBadBatch(request, &response); });
  MutexLock lock(&mutex_);
  if (!status.ok()) {
    error_ = status;
    return;
  }
  logic_.OnReported(action.ticket);
}

void AsyncTrainer::Start(const Exchange& exchange, uint64_t ticket) {
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

void AsyncTrainer::OnDone(Flight* flight, const ExchangeResult& result) {
  MutexLock lock(&mutex_);
  logic_.OnExchange(flight->ticket, flight->group, result);
  if (error_.ok()) error_ = HopelessExchange(result.status);
  flight->used = false;
  Wake();
}

void AsyncTrainer::RunLeases() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      while (!closing_ && !must_lease_) lease_changed_.Wait(&mutex_);
      if (closing_) return;
      must_lease_ = false;
    }
    MakeLeaseCall();
  }
}

void AsyncTrainer::MakeLeaseCall() {
  v1::LeaseBatchesRequest request;
  *request.mutable_identity() = options_.identity();
  {
    MutexLock lock(&mutex_);
    const LeaseCall& call = logic_.lease_call();
    request.mutable_identity()->set_view(view_);
    request.mutable_identity()->set_lineage(lineage_);
    request.set_number(call.number);
    request.set_want(call.want);
    AddTo(call.finished, request.mutable_finished());
    AddTo(call.stale, request.mutable_stale());
  }
  v1::LeaseBatchesResponse response;
  const absl::Status status = options_.chief->LeaseBatches(request, &response);
  MutexLock lock(&mutex_);
  const absl::Time now = options_.clock->Now();
  if (status.ok()) {
    logic_.OnLeaseAnswer(now, request.number(), AnswerOf(response));
  } else {
    // Aborted: another lineage, or fenced; the run's state tells.
    if (!IsOutcomeUnknown(status) && !absl::IsAborted(status)) error_ = status;
    logic_.OnLeaseFailed(now, request.number());
  }
  Wake();
}

}  // namespace shoal
