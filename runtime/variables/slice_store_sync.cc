// SYNC: adds contributions in the order of positions, and applies a step when all its contributions
// have arrived.
#include <cstring>
#include <utility>

#include "ml/optim/gradient_clipping.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

void SliceStore::ResetSync(SliceState& state, uint64_t version, uint64_t value_version) {
  const uint32_t max_positions = plan_->replicas_to_aggregate();
  for (Waiting& waiting : state.waiting) staging_.Release(std::move(waiting.block));
  state.waiting.clear();
  state.waiting.resize(max_positions);
  state.waits_for_scale = false;
  state.sync = SyncSlice(max_positions);
  state.sync.Reset(version, value_version, plan_->At(version).num_batches);
}

PushOutcome SliceStore::PushSync(SliceState& state, const SlicePush& push) {
  const StepPlan::Place place = plan_->PlaceOf(push.batch);
  if (place.step != push.step || place.position != push.position) return PushOutcome::kAhead;
  const Payload payload{push.kind, push.data, push.bytes};
  const SyncSlice::Arrival arrival = state.sync.Classify(push.step, push.position);
  if (decisions_.IsSkipped(push.batch)) return PushOutcome::kWithheld;
  if (arrival == SyncSlice::Arrival::kDuplicate) return PushOutcome::kDuplicate;
  if (arrival == SyncSlice::Arrival::kAhead) return PushOutcome::kAhead;
  if (decisions_.IsRefused(push.batch)) return PushOutcome::kWithheld;
  if (!PayloadFits(payload, state.shape)) return PushOutcome::kCorrupt;
  if (!PayloadIsFinite(payload, state.shape)) return PushOutcome::kNonFinite;
  if (arrival == SyncSlice::Arrival::kLater) {
    const PushOutcome outcome = KeepForLater(state, push);
    if (outcome != PushOutcome::kAccepted) return outcome;
  }
  if (state.reports)
    reports_[push.position] = push.report != nullptr ? *push.report : BatchReport();
  if (arrival == SyncSlice::Arrival::kNext) {
    staging_.Release(std::move(state.waiting[push.position].block));
    if (IsWholeStep(state, payload)) {
      state.sync.AddNext(push.examples);
      FinishStep(state, 1.0f, static_cast<const float*>(push.data));
    } else {
      AddToSum(state, payload, push.examples);
    }
    Progress(state);
  }
  return PushOutcome::kAccepted;
}

// Returns whether the payload can be applied directly, without adding it to the sum.
bool SliceStore::IsWholeStep(const SliceState& state, const Payload& payload) const {
  return state.sync.num_positions() == 1 && payload.kind == ContributionKind::kDense &&
         options_.update.clip_by_global_norm == 0 &&
         state.updater->kind() == VariableUpdater::Kind::kOptimizer &&
         reinterpret_cast<uintptr_t>(payload.data) % alignof(float) == 0;
}

PushOutcome SliceStore::KeepForLater(SliceState& state, const SlicePush& push) {
  if (!TakeRoom(state, push)) return PushOutcome::kBusy;
  Waiting& waiting = state.waiting[push.position];
  std::memcpy(waiting.block.data.get(), push.data, push.bytes);
  waiting.kind = push.kind;
  waiting.examples = push.examples;
  state.sync.Keep(push.position);
  return PushOutcome::kAccepted;
}

bool SliceStore::TakeRoom(SliceState& state, const SlicePush& push) {
  StagingPool::Block& block = state.waiting[push.position].block;
  if (block.data != nullptr && block.bytes == push.bytes) return true;
  staging_.Release(std::move(block));
  block = staging_.Take(push.bytes);
  return block.data != nullptr;
}

void SliceStore::AddToSum(SliceState& state, const Payload& payload, uint32_t examples) {
  // A step planned with one batch is that batch's mean, bit for bit.
  const float weight = state.sync.num_positions() == 1 ? 1.0f : static_cast<float>(examples);
  FoldPayload(payload, state.shape, weight, state.sync.num_added() == 0, state.values.sum());
  state.sync.AddNext(examples);
}

// Adds the contributions that have waited for their turn, and passes over skipped positions.
// Returns true if no position is missing any more.
bool SliceStore::AddWhatIsThere(SliceState& state) {
  SyncSlice& sync = state.sync;
  while (!sync.AllThrough()) {
    const uint32_t position = sync.next_position();
    if (sync.IsThere(position)) {
      Waiting& waiting = state.waiting[position];
      AddToSum(state, {waiting.kind, waiting.block.data.get(), waiting.block.bytes},
               waiting.examples);
      staging_.Release(std::move(waiting.block));
    } else if (decisions_.IsSkipped(plan_->BatchAt(sync.version(), position))) {
      staging_.Release(std::move(state.waiting[position].block));
      sync.PassOverNext();
    } else {
      return false;
    }
  }
  return true;
}

void SliceStore::Progress(SliceState& state) {
  while (!state.poisoned && !state.waits_for_scale && AddWhatIsThere(state)) {
    if (MustWaitForScale(state)) return;
    FinishStep(state, 1.0f, state.values.sum());
  }
}

float SliceStore::MeanScale(const SliceState& state) const {
  if (state.sync.num_positions() == 1) return 1.0f;
  return 1.0f / static_cast<float>(state.sync.examples());
}

bool SliceStore::MustWaitForScale(SliceState& state) {
  if (options_.update.clip_by_global_norm == 0 ||
      state.updater->kind() != VariableUpdater::Kind::kOptimizer || state.sync.num_added() == 0) {
    return false;
  }
  state.waits_for_scale = true;
  const double scale = MeanScale(state);
  const double squares =
      SumOfSquares({state.values.sum(), static_cast<size_t>(state.shape.num_elements)});
  events_.norms.push_back({state.sync.version(), state.slice, squares * scale * scale});
  return true;
}

void SliceStore::ApplyScale(uint64_t step, double scale) {
  for (const std::unique_ptr<SliceState>& state : states_) {
    if (!state->waits_for_scale || state->sync.version() != step) continue;
    state->waits_for_scale = false;
    FinishStep(*state, static_cast<float>(scale), state->values.sum());
    Progress(*state);
  }
}

void SliceStore::FinishStep(SliceState& state, float clip_scale, const float* contribution) {
  SyncSlice& sync = state.sync;
  const uint64_t step = sync.version();
  const bool makes_value = sync.num_added() > 0;
  if (makes_value) {
    SliceValues::Step update;
    update.step = step;
    update.learning_rate = LearningRateAt(step);
    update.scale = MeanScale(state) * clip_scale;
    update.contribution = contribution;
    if (state.updater->kind() != VariableUpdater::Kind::kOptimizer) {
      if (update.scale != 1.0f)
        ScaleInPlace(update.scale, {state.values.sum(), state.values.num_elements()});
      update.scale = 1;
    }
    if (!ApplyOrPoison(state, update)) return;
  }
  if (state.reports) EmitStep(state, plan_->At(step));
  sync.Advance(makes_value, plan_->At(step + 1).num_batches);
  events_.advances.push_back({state.slice, sync.version()});
  if (options_.cuts.Contains(*plan_, sync.version()) || cuts_.IsAsked(sync.version())) {
    const bool completes = cuts_.Count(sync.version());
    if (completes) EmitUnversionedCutParts(sync.version());
    EmitCutPart(state, sync.version(), sync.version(), completes);
  }
}

void SliceStore::EmitStep(const SliceState& state, const StepPlan::Step& step) {
  SliceStoreEvents::Step& event = events_.steps.emplace_back();
  event.step = state.sync.version() + 1;
  event.epoch = step.epoch;
  event.learning_rate = LearningRateAt(state.sync.version());
  for (uint32_t position = 0; position < step.num_batches; ++position) {
    if (!state.sync.IsThere(position)) continue;
    const BatchReport& report = reports_[position];
    event.loss_sum += report.loss_sum;
    event.regularization += report.regularization * static_cast<double>(report.examples);
    event.correct += report.correct;
    event.examples += report.examples;
  }
  if (event.examples > 0) event.regularization /= static_cast<double>(event.examples);
}

void SliceStore::AppendMissingPositions(uint32_t slice, std::vector<uint32_t>* positions) const {
  const SliceState& state = StateOf(slice);
  if (!options_.synchronous || !IsVersioned(state)) return;
  for (uint32_t position = state.sync.next_position(); position < state.sync.num_positions();
       ++position) {
    if (state.sync.IsThere(position)) continue;
    if (!decisions_.IsSkipped(plan_->BatchAt(state.sync.version(), position)))
      positions->push_back(position);
  }
}

}  // namespace shoal
