#include "runtime/variables/slice_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/optim/all_finite.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

constexpr uint32_t kNotHere = UINT32_MAX;
constexpr size_t kRememberedCuts = 64;

}  // namespace

SliceStore::SliceStore(const SliceStoreOptions& options, const SliceTable& table)
    : options_(options), table_(table), staging_(options.staging_bytes) {}

absl::StatusOr<std::unique_ptr<SliceStore>> SliceStore::Create(
    const SliceStoreOptions& options, absl::Span<const v1::VariableSpec> variables,
    const SliceTable& table, absl::Span<const uint32_t> owned) {
  std::unique_ptr<SliceStore> store(new SliceStore(options, table));
  ASSIGN_OR_RETURN(store->rules_, UpdateRules::Create(options.update));
  store->updaters_.reserve(variables.size());
  for (const v1::VariableSpec& spec : variables) {
    ASSIGN_OR_RETURN(VariableUpdater updater, store->rules_->CreateUpdater(spec));
    if (spec.has_table()) {
      RETURN_IF_ERROR(store->tables_.Add(static_cast<uint32_t>(store->updaters_.size()), spec,
                                         options.update, options.seed, store->rules_.get()));
    }
    store->updaters_.push_back(std::move(updater));
  }
  store->owned_.assign(owned.begin(), owned.end());
  store->index_of_.assign(table.size(), kNotHere);
  for (uint32_t slice : owned) {
    if (slice >= table.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", slice, " of ", table.size(), " slices"));
    }
    const Slice& cut = table[slice];
    // Sparse rows are pushed to slices of whole rows; a piece of a long row takes dense
    // contributions only.
    const uint64_t row = table.row_elements_of(cut.variable);
    const SliceShape shape{cut.num_elements, cut.num_elements % row == 0 ? row : cut.num_elements};
    store->index_of_[slice] = static_cast<uint32_t>(store->states_.size());
    store->states_.push_back(std::make_unique<StoreSlice>(
        slice, store->updaters_[cut.variable], shape,
        cut.is_bucket ? store->tables_.MakeBucket(cut.variable) : nullptr));
    store->states_.back()->reports = slice == table.report_slice();
    if (cut.is_bucket) {
      store->states_.back()->rate_index = store->tables_.rate_index(cut.variable);
    }
    if (table.is_versioned(cut.variable)) ++store->num_versioned_;
  }
  return store;
}

const SliceTable& SliceStore::table() const { return table_; }
absl::Span<const uint32_t> SliceStore::owned() const { return owned_; }
bool SliceStore::Owns(uint32_t slice) const {
  return slice < index_of_.size() && index_of_[slice] != kNotHere;
}
std::vector<std::string> SliceStore::slot_names(uint32_t slice) const {
  std::vector<std::string> names;
  if (GetState(slice).bucket != nullptr) {
    return tables_.updater(table_[slice].variable).slot_names();
  }
  for (const SlotSpec& slot : GetState(slice).updater->slots()) names.push_back(slot.name);
  return names;
}

absl::Status SliceStore::Load(const LoadOptions& options, SliceSource& source) {
  first_kept_epoch_ = 0;
  plan_ = options.plan;
  if (options_.synchronous && !plan_->Covers(options.version)) {
    return absl::InvalidArgumentError(absl::StrCat("version ", options.version,
                                                   " is before the plan's base_step ",
                                                   plan_->options().base_step));
  }
  decisions_.Reset(options.skipped);
  cuts_.Reset(num_versioned_);
  done_cuts_.clear();
  events_.Clear();
  reports_.assign(options_.synchronous ? plan_->replicas_to_aggregate() : 1, BatchReport());
  for (const std::unique_ptr<StoreSlice>& state : states_)
    RETURN_IF_ERROR(LoadSlice(*state, options, source));
  // Steps that are skipped whole are passed over at once.
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (options_.synchronous && state->is_versioned()) Progress(*state);
  }
  return absl::OkStatus();
}

absl::Status SliceStore::LoadSlice(StoreSlice& state, const LoadOptions& options,
                                   SliceSource& source) {
  state.poisoned = false;
  if (state.bucket != nullptr) return LoadBucket(state, options, source);
  state.values.Restart();
  SliceSource::Contents contents;
  contents.value = state.values.mutable_value();
  for (size_t k = 0; k < state.updater->num_slots(); ++k)
    contents.slots.push_back(state.values.mutable_slot(k));
  contents.version = contents.value_version = options.version;
  RETURN_IF_ERROR(source.Fill(state.slice, &contents));
  if (contents.slots_follow_value && state.updater->keeps_average()) {
    std::copy(contents.value.begin(), contents.value.end(), contents.slots.back().begin());
  }
  if (!state.is_versioned()) return absl::OkStatus();
  bool finite = AllFinite(contents.value.data(), contents.value.size());
  for (const absl::Span<float> slot : contents.slots) finite &= AllFinite(slot.data(), slot.size());
  if (!finite) {
    return absl::DataLossError(absl::StrCat("slice ", state.slice,
                                            " has numbers that are not finite; remove this "
                                            "checkpoint to resume from the one before it"));
  }
  return TakeVersions(state, options, contents.version, contents.value_version, &contents.applied);
}

absl::Status SliceStore::TakeVersions(StoreSlice& state, const LoadOptions& options,
                                      uint64_t version, uint64_t value_version,
                                      std::vector<EpochBatches>* applied) {
  if (options_.synchronous) {
    if (version != options.version || value_version > options.version) {
      return absl::DataLossError(absl::StrCat("slice ", state.slice, " is at version ", version,
                                              " (value ", value_version, "), the cut at ",
                                              options.version));
    }
    state.ResetSync(*plan_, version, value_version, &staging_);
  } else {
    state.updates = version;
    state.applied.clear();
    for (EpochBatches& epoch : *applied) state.applied[epoch.epoch] = std::move(epoch.batches);
  }
  return absl::OkStatus();
}

PushOutcome SliceStore::Push(const SlicePush& push) {
  if (!Owns(push.slice) || !plan_.has_value()) return PushOutcome::kAhead;
  StoreSlice& state = GetState(push.slice);
  if (!state.is_versioned() || !plan_->Covers(push.batch)) return PushOutcome::kAhead;
  if (push.batch.epoch >= options_.end_epoch) return PushOutcome::kAhead;
  return options_.synchronous ? PushSync(state, push) : PushAsync(state, push);
}

bool SliceStore::MakeRoom(const SlicePush& push) {
  if (!options_.synchronous || !Owns(push.slice) || !plan_.has_value()) return true;
  StoreSlice& state = GetState(push.slice);
  if (!state.is_versioned() || !plan_->Covers(push.batch)) return true;
  const StepPlan::Place place = plan_->FindPlace(push.batch);
  if (place.step != push.step || place.position != push.position) return true;
  if (state.sync.Classify(push.step, push.position) != SyncSlice::Arrival::kLater) return true;
  return decisions_.IsRefused(push.batch) ||
         state.contributions.TakeRoom(push.position, push.bytes);
}

PullAnswer SliceStore::PullNewest(uint32_t slice) const {
  const StoreSlice& state = GetState(slice);
  PullAnswer answer;
  answer.state = PullAnswer::kValue;
  answer.version = newest_version(slice);
  const bool is_sync = options_.synchronous && state.is_versioned();
  answer.value_version = is_sync ? state.sync.value_version() : answer.version;
  answer.value = state.values.value();
  return answer;
}

PullAnswer SliceStore::TryPull(uint32_t slice, uint64_t version) const {
  const StoreSlice& state = GetState(slice);
  if (!options_.synchronous || !state.is_versioned()) return PullNewest(slice);
  PullAnswer answer;
  answer.version = state.sync.version();
  switch (state.sync.Find(version)) {
    case SyncSlice::Value::kNotYet:
      return answer;
    case SyncSlice::Value::kCurrent:
      return PullNewest(slice);
    case SyncSlice::Value::kPrevious:
      if (state.poisoned) break;
      answer.state = PullAnswer::kValue;
      answer.value_version = state.sync.previous_version();
      answer.value = state.values.previous_value();
      return answer;
    case SyncSlice::Value::kGone:
      break;
  }
  answer.state = PullAnswer::kGone;
  return answer;
}

uint64_t SliceStore::newest_version(uint32_t slice) const {
  const StoreSlice& state = GetState(slice);
  if (!state.is_versioned()) return kEveryVersion;
  return options_.synchronous ? state.sync.version() : state.updates;
}

bool SliceStore::HasBatch(const StoreSlice& state, const BatchKey& batch) const {
  if (options_.synchronous) {
    const StepPlan::Place place = plan_->FindPlace(batch);
    return !decisions_.IsSkipped(batch) && state.sync.Has(place.step, place.position);
  }
  if (batch.epoch < first_kept_epoch_) return true;
  const auto epoch = state.applied.find(batch.epoch);
  return epoch != state.applied.end() && epoch->second.Contains(batch.index);
}

WithholdAnswer SliceStore::Withhold(const BatchKey& batch, uint64_t number) {
  WithholdAnswer answer;
  if (!plan_.has_value() || !plan_->Covers(batch) || !decisions_.Withhold(batch, number)) {
    answer.ignored = true;
    return answer;
  }
  uint32_t having = 0;
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (state->is_versioned() && HasBatch(*state, batch)) ++having;
  }
  answer.all_have = having == num_versioned_;
  answer.none_has = having == 0;
  return answer;
}

void SliceStore::Decide(const BatchKey& batch, uint64_t number, bool skip) {
  if (!decisions_.Decide(batch, number, skip) || !skip || !options_.synchronous) return;
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (state->is_versioned()) Progress(*state);
  }
}

CutAnswer SliceStore::RequestCut(uint64_t version) {
  CutAnswer answer;
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (state->is_versioned())
      answer.newest_version = std::max(answer.newest_version, newest_version(state->slice));
  }
  if (!options_.synchronous || num_versioned_ == 0) {
    if (done_cuts_.insert(version).second) CutAllNow(version);
    if (done_cuts_.size() > kRememberedCuts) done_cuts_.erase(done_cuts_.begin());
    return answer;
  }
  answer.passed = answer.newest_version > version;
  if (answer.passed) return answer;
  const bool cuts_now = cuts_.Ask(version) && !options_.cuts.Contains(*plan_, version);
  for (const std::unique_ptr<StoreSlice>& state : states_) {
    if (!state->is_versioned()) continue;
    const bool waits = state->poisoned || newest_version(state->slice) < version;
    answer.waits = answer.waits || waits;
    if (cuts_now && !waits) CutSlice(*state);
  }
  return answer;
}

void SliceStore::EmitCutPart(const StoreSlice& state, uint64_t cut, uint64_t version,
                             bool completes) {
  SliceStoreEvents::CutPart& part = events_.cuts.emplace_back();
  part.cut = cut;
  part.slice = state.slice;
  part.version = version;
  const bool is_sync = options_.synchronous && state.is_versioned();
  part.value_version = is_sync ? state.sync.value_version() : version;
  if (state.bucket != nullptr) {
    part.rows = state.bucket->Cut(part.version);
  } else {
    part.value = state.values.value();
    part.slots = state.values.slots();
  }
  for (const auto& [epoch, batches] : state.applied) part.applied.push_back({epoch, batches});
  part.completes_cut = completes;
}

void SliceStore::TakeEvents(SliceStoreEvents* events) {
  events->Clear();
  std::swap(*events, events_);
}

}  // namespace shoal
