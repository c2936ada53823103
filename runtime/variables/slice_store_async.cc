// ASYNC: applies each contribution when it arrives.
#include <algorithm>

#include "runtime/variables/slice_store.h"

namespace shoal {

PushOutcome SliceStore::PushAsync(StoreSlice& state, const SlicePush& push) {
  if (HasBatch(state, push.batch)) return PushOutcome::kDuplicate;
  if (decisions_.IsRefused(push.batch)) return PushOutcome::kWithheld;
  if (state.poisoned) return PushOutcome::kWithheld;
  // After a restore the versions pulled before may be ahead of the slice: nothing has happened
  // since.
  const uint64_t staleness =
      state.updates > push.pulled_version ? state.updates - push.pulled_version : 0;
  if (options_.max_staleness >= 0 && staleness > static_cast<uint64_t>(options_.max_staleness)) {
    return PushOutcome::kStale;
  }
  const Payload payload{push.kind, push.data, push.bytes};
  if (!state.Fits(table_, payload, &row_scratch_)) return PushOutcome::kCorrupt;
  if (!state.IsFinite(payload, &row_scratch_)) return PushOutcome::kNonFinite;

  if (!ApplyNow(state, payload)) return PushOutcome::kWithheld;
  state.applied[push.batch.epoch].Insert(push.batch.index);
  ++state.updates;
  events_.advances.push_back({state.slice, state.updates});
  if (state.reports) {
    const BatchReport report = push.report != nullptr ? *push.report : BatchReport();
    events_.steps.push_back(
        {state.updates, push.batch.epoch, report.loss_sum, report.regularization, report.correct,
         report.examples, rules_->LearningRate(0, state.updates - 1), staleness, report.metrics});
  }
  return PushOutcome::kAccepted;
}

bool SliceStore::ApplyNow(StoreSlice& state, const Payload& payload) {
  const float learning_rate = rules_->LearningRate(state.rate_index, state.updates);
  if (state.bucket != nullptr) {
    state.bucket->Add(payload, 1, true);
    return state.ApplyRows({state.updates, state.updates, learning_rate, 1}, &events_);
  }
  SliceValues::Step update;
  update.step = state.updates;
  update.learning_rate = learning_rate;
  update.keep_previous = false;
  const bool is_usable_in_place = payload.kind != ContributionKind::kSparse &&
                                  reinterpret_cast<uintptr_t>(payload.data) % alignof(float) == 0;
  if (is_usable_in_place) {
    update.contribution = static_cast<const float*>(payload.data);
  } else {
    FoldPayload(payload, state.shape, 1.0f, true, state.values.sum());
    update.contribution = state.values.sum();
  }
  return state.Apply(update, &events_);
}

void SliceStore::CutAllNow(uint64_t version) {
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (state->poisoned) return;  // the cut can never be complete
  }
  for (size_t i = 0; i < states_.size(); ++i) {
    EmitCutPart(*states_[i], version, newest_version(states_[i]->slice), i + 1 == states_.size());
  }
}

IntervalSet SliceStore::Applied(uint32_t epoch) const {
  IntervalSet common;
  bool is_first = true;
  if (epoch < first_kept_epoch_) {
    common.InsertRange(0, plan_->batches_per_epoch());
    return common;
  }
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (!state->is_versioned()) continue;
    const auto it = state->applied.find(epoch);
    const IntervalSet& applied = it == state->applied.end() ? IntervalSet() : it->second;
    common = is_first ? applied : IntervalSet::Intersection(common, applied);
    is_first = false;
  }
  if (is_first && plan_.has_value())
    common.InsertRange(0, plan_->batches_per_epoch());  // nothing here misses a batch
  return common;
}

void SliceStore::ForgetEpochsBefore(uint32_t epoch) {
  first_kept_epoch_ = std::max(first_kept_epoch_, epoch);
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    state->applied.erase(state->applied.begin(), state->applied.lower_bound(epoch));
  }
}

}  // namespace shoal
