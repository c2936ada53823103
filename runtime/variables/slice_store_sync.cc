// SYNC: adds contributions in the order of positions, and applies a step when all its contributions
// have arrived.
#include "runtime/variables/slice_store.h"

namespace shoal {

PushOutcome SliceStore::PushSync(StoreSlice& state, const SlicePush& push) {
  const StepPlan::Place place = plan_->FindPlace(push.batch);
  if (place.step != push.step || place.position != push.position) return PushOutcome::kAhead;
  const Payload payload{push.kind, push.data, push.bytes};
  const SyncSlice::Arrival arrival = state.sync.Classify(push.step, push.position);
  if (decisions_.IsSkipped(push.batch)) return PushOutcome::kWithheld;
  if (arrival == SyncSlice::Arrival::kDuplicate) return PushOutcome::kDuplicate;
  if (arrival == SyncSlice::Arrival::kAhead) return PushOutcome::kAhead;
  if (decisions_.IsRefused(push.batch)) return PushOutcome::kWithheld;
  if (!state.Fits(table_, payload, &row_scratch_)) return PushOutcome::kCorrupt;
  if (!state.IsFinite(payload, &row_scratch_)) return PushOutcome::kNonFinite;
  if (arrival == SyncSlice::Arrival::kLater &&
      !state.contributions.Keep(push.position, payload, push.examples)) {
    return PushOutcome::kBusy;
  }
  if (state.reports)
    reports_[push.position] = push.report != nullptr ? *push.report : BatchReport();
  if (arrival == SyncSlice::Arrival::kNext) {
    state.contributions.ReleaseRoom(push.position);
    const bool is_applied_as_it_is = options_.update.clip_by_global_norm == 0 &&
                                     state.updater->kind() == VariableUpdater::Kind::kOptimizer &&
                                     state.contributions.IsWholeStep(payload);
    if (is_applied_as_it_is) {
      state.sync.AddNext(push.examples);
      FinishStep(state, 1.0f, static_cast<const float*>(push.data));
    } else {
      state.contributions.AddNext(payload, push.examples);
    }
    Progress(state);
  }
  return PushOutcome::kAccepted;
}

void SliceStore::Progress(StoreSlice& state) {
  const auto is_skipped = [this, &state](uint32_t position) {
    return decisions_.IsSkipped(plan_->BatchAt(state.sync.version(), position));
  };
  while (!state.poisoned && !state.waits_for_scale && state.contributions.AddReady(is_skipped)) {
    if (MustWaitForScale(state)) return;
    FinishStep(state, 1.0f, state.sum());
  }
}

bool SliceStore::MustWaitForScale(StoreSlice& state) {
  if (options_.update.clip_by_global_norm == 0 ||
      state.updater->kind() != VariableUpdater::Kind::kOptimizer || state.sync.num_added() == 0) {
    return false;
  }
  state.waits_for_scale = true;
  const double scale = state.contributions.MeanScale();
  events_.norms.push_back(
      {state.sync.version(), state.slice, state.SquaresOfSum() * scale * scale});
  return true;
}

void SliceStore::ApplyScale(uint64_t step, double scale) {
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (!state->waits_for_scale || state->sync.version() != step) continue;
    state->waits_for_scale = false;
    FinishStep(*state, static_cast<float>(scale), state->sum());
    Progress(*state);
  }
}

void SliceStore::FinishStep(StoreSlice& state, float clip_scale, const float* contribution) {
  SyncSlice& sync = state.sync;
  const uint64_t step = sync.version();
  const bool makes_value = sync.num_added() > 0;
  if (makes_value && state.bucket != nullptr) {
    Bucket::Step update{step, sync.value_version(), rules_->LearningRate(state.rate_index, step),
                        state.contributions.MeanScale() * clip_scale};
    if (!state.ApplyRows(update, &events_)) return;
  } else if (makes_value) {
    SliceValues::Step update;
    update.step = step;
    update.learning_rate = rules_->LearningRate(state.rate_index, step);
    update.scale = state.contributions.MeanScale() * clip_scale;
    update.contribution = contribution;
    if (state.updater->kind() != VariableUpdater::Kind::kOptimizer) {
      if (update.scale != 1.0f)
        ScaleInPlace(update.scale, {state.values.sum(), state.values.num_elements()});
      update.scale = 1;
    }
    if (!state.Apply(update, &events_)) return;
  }
  if (state.reports) EmitStep(state, plan_->At(step));
  sync.Advance(makes_value, plan_->At(step + 1).num_batches);
  events_.advances.push_back({state.slice, sync.version()});
  if (options_.cuts.Contains(*plan_, sync.version()) || cuts_.IsAsked(sync.version())) {
    CutSlice(state);
  }
}

void SliceStore::CutSlice(const StoreSlice& state) {
  const uint64_t version = state.sync.version();
  const bool completes = cuts_.Count(version);
  for (const std::unique_ptr<StoreSlice>& other : states_) {
    if (completes && !other->is_versioned()) EmitCutPart(*other, version, kEveryVersion, false);
  }
  EmitCutPart(state, version, version, completes);
}

void SliceStore::EmitStep(const StoreSlice& state, const StepPlan::Step& step) {
  SliceStoreEvents::Step& event = events_.steps.emplace_back();
  event.step = state.sync.version() + 1;
  event.epoch = step.epoch;
  event.learning_rate = rules_->LearningRate(0, state.sync.version());
  for (uint32_t position = 0; position < step.num_batches; ++position) {
    if (!state.sync.HasArrived(position)) continue;
    const BatchReport& report = reports_[position];
    event.loss_sum += report.loss_sum;
    event.regularization += report.regularization * static_cast<double>(report.examples);
    event.correct += report.correct;
    event.examples += report.examples;
    AddMetrics(report.metrics, &event.metrics);
  }
  if (event.examples > 0) event.regularization /= static_cast<double>(event.examples);
}

void SliceStore::AppendMissingPositions(uint32_t slice, std::vector<uint32_t>* positions) const {
  const StoreSlice& state = GetState(slice);
  if (!options_.synchronous || !state.is_versioned()) return;
  for (uint32_t position = state.sync.next_position(); position < state.sync.num_positions();
       ++position) {
    if (state.sync.HasArrived(position)) continue;
    if (!decisions_.IsSkipped(plan_->BatchAt(state.sync.version(), position)))
      positions->push_back(position);
  }
}

}  // namespace shoal
