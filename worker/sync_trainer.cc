#include "worker/sync_trainer.h"

#include <set>
#include <utility>

namespace shoal {
namespace {

std::set<BatchKey> ToBatchKeys(const google::protobuf::RepeatedPtrField<v1::BatchId>& batches) {
  std::set<BatchKey> keys;
  for (const v1::BatchId& batch : batches) keys.insert(ToBatchKey(batch));
  return keys;
}

SyncView MakeView(const v1::RunState& state) {
  SyncView view;
  view.number = state.number();
  view.lineage = state.lineage();
  view.training = state.phase() == v1::RunState::PHASE_TRAINING ||
                  state.phase() == v1::RunState::PHASE_STOPPING;
  view.workers.assign(state.workers().begin(), state.workers().end());
  view.skipped = ToBatchKeys(state.skipped());
  view.delivered = ToBatchKeys(state.delivered());
  view.last_step = state.last_step();
  view.evaluations = VersionSchedule{state.evaluate_every(), state.last_step()};
  return view;
}

SyncStepLogic::Options LogicOptions(const TrainerOptions& options) {
  SyncStepLogic::Options logic;
  logic.worker = options.worker;
  for (const ExchangeGroup& group : options.store->groups())
    logic.group_versioned.push_back(group.versioned);
  logic.num_evaluation_blocks =
      options.test == nullptr ? 0 : static_cast<uint64_t>(options.test_plan.batches_per_epoch());
  return logic;
}

}  // namespace

SyncTrainer::SyncTrainer(const TrainerOptions& options)
    : SteppingTrainer(options),
      plan_(options.steps),
      logic_(LogicOptions(options), options.steps) {}

SyncTrainer::~SyncTrainer() = default;

Trainer::Progress SyncTrainer::progress() const {
  MutexLock lock(&mutex_);
  Progress progress;
  progress.step = logic_.step();
  progress.activity = logic_.Activity();
  progress.computing = computed_.computing();
  progress.computed = computed_.computed();
  progress.batch = current_batch_;
  return progress;
}

void SyncTrainer::TakeView(const v1::RunState& state) { logic_.OnView(MakeView(state)); }

std::optional<absl::Time> SyncTrainer::PlanNext(absl::Time now) {
  action_ = logic_.Next(now);
  if (action_.kind == SyncAction::kWait) return action_.wake;
  if (action_.kind == SyncAction::kCompute) current_batch_ = action_.batch;
  return std::nullopt;
}

void SyncTrainer::OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result) {
  logic_.OnExchange(options_.clock->Now(), ticket, group, result);
}

void SyncTrainer::Execute() {
  switch (action_.kind) {
    case SyncAction::kWait:
      break;
    case SyncAction::kQueryVersions:
    case SyncAction::kPull:
      StartAll();
      break;
    case SyncAction::kEvaluate:
      Evaluate();
      break;
    case SyncAction::kCompute:
      Compute();
      break;
    case SyncAction::kReportBad:
      if (ReportNonFinite(action_.lineage, action_.batch, action_.version)) {
        MutexLock lock(&mutex_);
        logic_.OnReported(action_.ticket);
      }
      break;
  }
}

void SyncTrainer::Evaluate() {
  const Evaluation evaluation =
      EvaluateBlock(action_.lineage, action_.version, action_.block, action_.parameter_set);
  MutexLock lock(&mutex_);
  if (evaluation == Evaluation::kReported) logic_.OnEvaluated(action_.ticket);
  if (evaluation == Evaluation::kNoRows) logic_.OnNoRows(action_.ticket);
}

void SyncTrainer::StartAll() {
  for (uint32_t group : action_.groups) {
    Exchange exchange;
    exchange.group = group;
    exchange.lineage = action_.lineage;
    if (action_.kind == SyncAction::kQueryVersions) {
      exchange.pull = true;
      exchange.versions_only = true;
    } else {
      exchange.pull_version = action_.version;
      SetPull(action_.parameter_set, action_.lineage, &exchange);
      exchange.park = action_.park;
    }
    Start(exchange, action_.ticket);
  }
}

void SyncTrainer::Compute() {
  const auto read_ahead = [this] {
    // Drops batches that were read for an earlier step and computed by another worker.
    const BatchKey first = plan_.BatchAt(action_.version, 0);
    train_batches_.ForgetBefore(first.epoch, static_cast<int64_t>(first.index));
    // The same place of the next step is the best guess for what comes next.
    if (plan_.At(action_.version + 1).num_batches <= action_.position) return;
    const BatchKey next = plan_.BatchAt(action_.version + 1, action_.position);
    train_batches_.Schedule(next.epoch, static_cast<int64_t>(next.index));
  };
  // The same place of the next steps, as for reading ahead.
  next_.clear();
  for (uint64_t ahead = 1; ahead <= options_.replica->announced_ahead(); ++ahead) {
    const uint64_t step = action_.version + ahead;
    if (plan_.At(step).num_batches > action_.position) {
      next_.push_back(plan_.BatchAt(step, action_.position));
    }
  }
  must_prepare_rows_ = action_.pull_next;
  const Work work = {action_.batch,
                     action_.lineage,
                     action_.version,
                     action_.version + 1,
                     action_.parameter_set,
                     action_.gradient_set,
                     next_};
  const bool computed =
      Train(work, read_ahead, [this](uint32_t group, bool finite, const BatchReport& report) {
        if (finite) return Push(group, report);
        MutexLock lock(&mutex_);
        logic_.OnNotPushed(options_.clock->Now(), action_.ticket, group);
      });
  MutexLock lock(&mutex_);
  if (!computed) logic_.OnNoRows(action_.ticket);
  current_batch_ = std::nullopt;
}

// Returns the batch that this worker probably computes first at the next version.
std::optional<BatchKey> SyncTrainer::FirstOfNextStep() const {
  uint64_t rank = 0;
  {
    MutexLock lock(&mutex_);
    rank = logic_.rank();
  }
  const uint64_t step = action_.version + 1;
  if (plan_.At(step).num_batches <= rank) return std::nullopt;
  return plan_.BatchAt(step, static_cast<uint32_t>(rank));
}

void SyncTrainer::Push(uint32_t group, const BatchReport& report) {
  Exchange exchange;
  exchange.group = group;
  exchange.lineage = action_.lineage;
  exchange.push = true;
  exchange.batch = action_.batch;
  exchange.step = action_.version;
  exchange.position = action_.position;
  exchange.batch_examples = action_.batch_examples;
  exchange.report = report;
  exchange.push_kinds = options_.replica->push_kinds(group);
  exchange.push_data = options_.replica->push_data(action_.gradient_set, group);
  exchange.push_bytes = options_.replica->push_bytes(action_.gradient_set, group);
  if (action_.pull_next) {
    // Groups of buckets come last, from the thread that trains.
    if (options_.store->groups()[group].buckets && std::exchange(must_prepare_rows_, false)) {
      PrepareRows(action_.next_parameter_set, FirstOfNextStep());
    }
    exchange.pull_version = action_.version + 1;
    SetPull(action_.next_parameter_set, action_.lineage, &exchange);
    exchange.park = action_.park;
  }
  Start(exchange, action_.ticket);
}

}  // namespace shoal
