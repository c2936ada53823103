#include "worker/async_trainer.h"

#include <cmath>
#include <utility>

#include "proto/v1/chief_service.grpc.pb.h"
#include "runtime/rpc/retry.h"

namespace shoal {
namespace {

AsyncView MakeView(const v1::RunState& state) {
  AsyncView view;
  view.number = state.number();
  view.lineage = state.lineage();
  view.training = state.phase() == v1::RunState::PHASE_TRAINING;
  view.ps_incarnations.assign(state.ps_incarnations().begin(), state.ps_incarnations().end());
  return view;
}

AsyncStepLogic::Options LogicOptions(const TrainerOptions& options) {
  AsyncStepLogic::Options logic;
  logic.groups = options.store->groups();
  return logic;
}

}  // namespace

AsyncTrainer::AsyncTrainer(const TrainerOptions& options)
    : SteppingTrainer(options), logic_(LogicOptions(options), options.steps) {
  for (const ExchangeGroup& group : options_.store->groups()) {
    pushed_data_.emplace_back(group.slices.size());
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

Trainer::Progress AsyncTrainer::progress() const {
  MutexLock lock(&mutex_);
  Progress progress;
  progress.step = logic_.num_finished();
  progress.activity = logic_.Activity();
  progress.computing = computed_.computing();
  progress.computed = computed_.computed();
  progress.batch = logic_.current_batch();
  return progress;
}

void AsyncTrainer::TakeView(const v1::RunState& state) {
  logic_.OnView(MakeView(state));
  view_ = state.view();
  lineage_ = state.lineage();
}

std::optional<absl::Time> AsyncTrainer::PlanNext(absl::Time now) {
  action_ = logic_.Next(now);
  if (action_.kind == AsyncAction::kWait) return action_.wake;
  return std::nullopt;
}

void AsyncTrainer::OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result) {
  logic_.OnExchange(ticket, group, result);
}

void AsyncTrainer::Execute() {
  switch (action_.kind) {
    case AsyncAction::kWait:
      break;
    case AsyncAction::kLease: {
      MutexLock lock(&mutex_);
      must_lease_ = true;
      lease_changed_.NotifyAll();
      break;
    }
    case AsyncAction::kPull:
      PullAll();
      break;
    case AsyncAction::kEvaluate:
      Evaluate();
      break;
    case AsyncAction::kCompute:
      Compute();
      break;
    case AsyncAction::kReportBad:
      if (ReportNonFinite(action_.lineage, action_.batch, /*step=*/0)) {
        MutexLock lock(&mutex_);
        logic_.OnReported(action_.ticket);
      }
      break;
  }
}

void AsyncTrainer::Evaluate() {
  const Evaluation evaluation =
      EvaluateBlock(action_.lineage, action_.version, action_.block, action_.parameter_set);
  MutexLock lock(&mutex_);
  if (evaluation == Evaluation::kReported) logic_.OnEvaluated(action_.ticket);
  if (evaluation == Evaluation::kNoRows) logic_.OnNoRows(action_.ticket);
}

void AsyncTrainer::PullAll() {
  for (const uint32_t group : action_.groups) {
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = action_.lineage;
    SetPull(action_.parameter_set, action_.lineage, &exchange);
    Start(exchange, action_.ticket);
  }
}

void AsyncTrainer::Compute() {
  std::optional<BatchKey> next;
  Work work = {action_.batch,          action_.lineage, /*version=*/0, /*step=*/1,
               action_.parameter_set,
               /*contribution_set=*/0, /*next=*/{}};
  {
    MutexLock lock(&mutex_);
    next = logic_.next_batch();
    const uint32_t group = options_.replica->report_group();
    if (group != UINT32_MAX) work.step = 1 + logic_.PulledVersions(group)[0];
  }
  const auto read_ahead = [&] {
    train_batches_.Forget();  // batches that were read ahead for leases that are gone
    if (next.has_value()) train_batches_.Schedule(next->epoch, static_cast<int64_t>(next->index));
  };
  if (next.has_value()) work.next = absl::MakeConstSpan(&*next, 1);
  must_prepare_rows_ = true;
  // All exchanges of the batch before are done, and with them its contributions.
  const bool computed =
      Train(work, read_ahead, [this](uint32_t group, bool finite, const BatchReport& report) {
        if (finite && std::isfinite(report.loss_sum)) return Push(group, report);
        MutexLock lock(&mutex_);
        logic_.OnNotPushed(action_.ticket, group);
      });
  if (computed) return;
  MutexLock lock(&mutex_);
  logic_.OnNoRows(action_.ticket);
}

void AsyncTrainer::Push(uint32_t group, const BatchReport& report) {
  Exchange exchange;
  exchange.group = group;
  exchange.lineage = action_.lineage;
  // Groups of buckets come last, from the thread that trains.
  if (options_.store->groups()[group].buckets && std::exchange(must_prepare_rows_, false)) {
    std::optional<BatchKey> next;
    {
      MutexLock lock(&mutex_);
      next = logic_.next_batch();
    }
    PrepareRows(action_.next_parameter_set, next);
  }
  SetPull(action_.next_parameter_set, action_.lineage, &exchange);
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
    exchange.batch = action_.batch;
    exchange.batch_examples = action_.batch_examples;
    exchange.report = report;
    exchange.push_kinds = options_.replica->push_kinds(group);
    exchange.push_data = pushed_data_[group].data();
    exchange.push_bytes = options_.replica->push_bytes(/*set=*/0, group);
  }
  Start(exchange, action_.ticket);
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
  const v1::Identity identity = options_.identity();
  v1::LeaseBatchesRequest request;
  {
    MutexLock lock(&mutex_);
    request = logic_.lease_call();
    *request.mutable_identity() = identity;
    request.mutable_identity()->set_view(view_);
    request.mutable_identity()->set_lineage(lineage_);
  }
  v1::LeaseBatchesResponse response;
  const absl::Status status =
      options_.chief->Call(&v1::ChiefService::Service::LeaseBatches, request, &response);
  std::optional<BatchKey> next;
  {
    MutexLock lock(&mutex_);
    const absl::Time now = options_.clock->Now();
    if (status.ok()) {
      logic_.OnLeaseAnswer(now, request.number(), response);
      next = logic_.next_batch();
    } else {
      // Aborted: another lineage, or fenced; the run's state tells.
      if (!IsOutcomeUnknown(status) && !absl::IsAborted(status)) error_ = status;
      logic_.OnLeaseFailed(now, request.number());
    }
    Wake();
  }
  // Often only one batch is held: the next becomes known while that one is computed.
  if (next.has_value()) train_batches_.Schedule(next->epoch, static_cast<int64_t>(next->index));
}

}  // namespace shoal
