#include "worker/async_step_logic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

AsyncStepLogic::AsyncStepLogic(Options options, const StepPlan& plan)
    : options_(std::move(options)), plan_(plan), groups_(options_.groups.size()) {
  for (size_t i = 0; i < groups_.size(); ++i) {
    const size_t num_slices = options_.groups[i].slices.size();
    for (auto& versions : groups_[i].versions) versions.assign(num_slices, 0);
    groups_[i].owed.assign(num_slices, 0);
    groups_[i].wants.assign(num_slices, 0);
    groups_[i].pulled_versions.assign(num_slices, 0);
    if (options_.groups[i].versioned) ++num_versioned_;
  }
}

AsyncAction AsyncStepLogic::Next(absl::Time now) {
  AsyncAction action;
  action.lineage = view_.lineage;
  if (!view_.training) return action;
  if (current_.has_value() && current_->is_dropped && !is_busy()) DropBatch();
  if (MustCall(now)) {
    StartCall(now, &action);
    return action;
  }
  if (is_busy() || NextEvaluation(&action) || NextBatch(&action)) return action;
  is_fresh_ = false;  // others continue
  if (!is_calling_) action.wake = next_ask_;
  return action;
}

// --- Calls to the chief.

bool AsyncStepLogic::MustCall(absl::Time now) const {
  if (is_calling_) return false;
  if (must_repeat_) return now >= next_ask_;
  if (must_ask_ || finished_.size() >= options_.report_batches) return true;
  if (!finished_.empty() && now - last_call_ >= options_.report_interval) return true;
  // Ask for more when the last batch is about to be computed.
  const size_t num_ahead = queue_.size() - (current_.has_value() || queue_.empty() ? 0 : 1);
  if (num_ahead > 0 || !blocks_.empty()) return false;
  return !finished_.empty() || now >= next_ask_;
}

void AsyncStepLogic::StartCall(absl::Time now, AsyncAction* action) {
  action->kind = AsyncAction::kLease;
  if (!must_repeat_) {
    call_.set_number(call_.number() + 1);
    call_.clear_finished();
    for (const BatchKey& batch : finished_) *call_.add_finished() = ToProto(batch);
    finished_.clear();
    call_.clear_stale();
    if (current_.has_value() && current_->refusals >= kRefusalsBeforeNotice) {
      *call_.add_stale() = ToProto(current_->batch);
    }
    call_.set_want(options_.max_held);
  }
  must_repeat_ = must_ask_ = false;
  is_calling_ = true;
  last_call_ = now;
}

void AsyncStepLogic::OnLeaseFailed(absl::Time now, uint64_t number) {
  if (!is_calling_ || number != call_.number()) return;
  is_calling_ = false;
  must_repeat_ = true;
  next_ask_ = now + options_.ask_again;
}

void AsyncStepLogic::OnLeaseAnswer(absl::Time now, uint64_t number,
                                   const v1::LeaseBatchesResponse& answer) {
  if (!is_calling_ || number != call_.number()) return;
  is_calling_ = false;
  queue_.clear();
  bool still_held = false;
  for (const v1::LeaseBatchesResponse::Lease& lease : answer.leases()) {
    const BatchKey batch = ToBatchKey(lease.batch());
    if (batch.index >= plan_.batches_per_epoch()) continue;
    const bool is_current =
        current_.has_value() && !current_->is_dropped && current_->batch == batch;
    still_held = still_held || is_current;
    // Finished since the call was made.
    const bool is_finished =
        std::find(finished_.begin(), finished_.end(), batch) != finished_.end();
    if (!is_current && !is_finished) queue_.push_back(lease);
  }
  if (current_.has_value() && !still_held) current_->is_dropped = true;

  blocks_.clear();
  for (const v1::LeaseBatchesResponse::Evaluation& block : answer.evaluations()) {
    if (block.version() != evaluated_version_) {
      evaluated_version_ = block.version();
      evaluated_.clear();
      values_at_evaluation_ = false;
    }
    const bool is_under_way = round_.kind == AsyncAction::kEvaluate &&
                              round_.block.version() == block.version() &&
                              round_.block.block() == block.block();
    if (!is_under_way && evaluated_.count(block.block()) == 0) blocks_.push_back(block);
  }
  const bool is_idle = answer.leases().empty() && answer.evaluations().empty();
  idle_wait_ = is_idle ? std::clamp(2 * idle_wait_, options_.first_ask_again, options_.ask_again)
                       : absl::ZeroDuration();
  next_ask_ = now + (is_idle ? idle_wait_ : options_.ask_again);
}

// --- What to do.

void AsyncStepLogic::Begin(AsyncAction::Kind kind, uint32_t target_set, uint32_t num_groups,
                           AsyncAction* action) {
  round_ = Round();
  round_.kind = kind;
  round_.ticket = ++last_ticket_;
  round_.target_set = target_set;
  round_.groups_left = num_groups;
  for (Group& group : groups_) group.is_void = false;
  action->kind = kind;
  action->ticket = round_.ticket;
  action->parameter_set = set_;
  action->next_parameter_set = target_set;
}

// Pulls the groups that are not valid in set_; all versioned groups if the values are not fresh.
bool AsyncStepLogic::NextPull(AsyncAction* action) {
  listed_.clear();
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    const bool is_current = is_fresh_ || !options_.groups[i].versioned;
    if (!groups_[i].is_valid[set_] || !is_current) listed_.push_back(i);
  }
  is_fresh_ = true;
  if (listed_.empty()) return false;
  for (uint32_t i : listed_) groups_[i].is_valid[set_] = false;
  Begin(AsyncAction::kPull, set_, static_cast<uint32_t>(listed_.size()), action);
  action->groups = listed_;
  return true;
}

bool AsyncStepLogic::NextEvaluation(AsyncAction* action) {
  // The current batch comes first: blocks are assigned when all batches are finished.
  if (blocks_.empty() || current_.has_value()) return false;
  if (!values_at_evaluation_) {
    is_fresh_ = false;
    values_at_evaluation_ = true;
  }
  if (NextPull(action)) return true;
  Begin(AsyncAction::kEvaluate, set_, 0, action);
  round_.block = blocks_.front();
  blocks_.pop_front();
  action->version = round_.block.version();
  action->block = round_.block.block();
  return true;
}

bool AsyncStepLogic::NextBatch(AsyncAction* action) {
  if (!current_.has_value()) {
    if (queue_.empty()) return false;
    StartBatch(queue_.front());
    queue_.pop_front();
  }
  if (current_->is_bad) {
    Begin(AsyncAction::kReportBad, set_, 0, action);
  } else if (NextPull(action)) {
    return true;
  } else {
    for (Group& group : groups_) {
      group.wants = group.owed;
      group.pulled_versions = group.versions[set_];
    }
    const uint32_t other_set = 1 - set_;
    for (uint32_t i = 0; i < groups_.size(); ++i) {
      if (options_.groups[i].versioned) groups_[i].is_valid[other_set] = false;
    }
    Begin(AsyncAction::kCompute, other_set, num_versioned_, action);
  }
  action->batch = current_->batch;
  action->batch_examples = plan_.ExamplesIn(action->batch);
  return true;
}

void AsyncStepLogic::StartBatch(const v1::LeaseBatchesResponse::Lease& lease) {
  current_ = CurrentBatch();
  current_->batch = ToBatchKey(lease.batch());
  const auto& only = lease.ps();
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ExchangeGroup& group = options_.groups[i];
    const bool is_wanted = group.versioned && (only.empty() || std::find(only.begin(), only.end(),
                                                                         group.ps) != only.end());
    std::fill(groups_[i].owed.begin(), groups_[i].owed.end(), is_wanted);
  }
}

bool AsyncStepLogic::WantsAnyPush(uint32_t group) const {
  const std::vector<uint8_t>& wants = groups_[group].wants;
  return std::find(wants.begin(), wants.end(), 1) != wants.end();
}

// --- What came of it.

void AsyncStepLogic::OnView(const AsyncView& view) {
  if (view.number < view_.number) return;
  const bool is_new_lineage = view.lineage != view_.lineage;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const uint32_t ps = options_.groups[i].ps;
    const auto incarnation = [ps](const AsyncView& of) {
      return ps < of.ps_incarnations.size() ? of.ps_incarnations[ps] : 0;
    };
    // Versions of two lives of a ps cannot be compared.
    if (is_new_lineage || incarnation(view) != incarnation(view_)) Invalidate(&groups_[i]);
  }
  view_ = view;
}

void AsyncStepLogic::Invalidate(Group* group) {
  group->is_valid = {};
  group->is_void = true;
  for (auto& versions : group->versions) std::fill(versions.begin(), versions.end(), 0);
}

void AsyncStepLogic::OnExchange(uint64_t ticket, uint32_t group_index,
                                const ExchangeResult& result) {
  if (ticket != round_.ticket || round_.groups_left == 0) return;
  Group& group = groups_[group_index];
  if (result.status.ok()) {
    if (round_.kind == AsyncAction::kCompute) TakeOutcomes(&group, result);
    const size_t num_slices = group.owed.size();
    bool is_complete = !group.is_void && result.pulls.size() == num_slices;
    for (size_t i = 0; is_complete && i < num_slices; ++i) {
      group.versions[round_.target_set][i] = result.pulls[i].version;
      is_complete = result.pulls[i].has_value;
    }
    group.is_valid[round_.target_set] = is_complete;
  }
  EndGroup();
}

void AsyncStepLogic::TakeOutcomes(Group* group, const ExchangeResult& result) {
  for (size_t i = 0; i < result.outcomes.size() && i < group->wants.size(); ++i) {
    if (!group->wants[i]) continue;
    switch (result.outcomes[i]) {
      case PushOutcome::kAccepted:
      case PushOutcome::kDuplicate:
        group->owed[i] = 0;
        break;
      case PushOutcome::kStale:
        round_.was_refused = true;
        break;
      case PushOutcome::kWithheld:
        current_->is_withheld = true;
        break;
      case PushOutcome::kNonFinite:
        current_->is_bad = true;
        break;
      default:
        break;  // not taken: again
    }
  }
}

void AsyncStepLogic::OnNotPushed(uint64_t ticket, uint32_t) {
  if (ticket != round_.ticket || round_.kind != AsyncAction::kCompute) return;
  current_->is_bad = true;
  EndGroup();
}

void AsyncStepLogic::EndGroup() {
  if (--round_.groups_left > 0) return;
  if (round_.kind == AsyncAction::kCompute) EndBatchRound();
  round_ = Round();
}

void AsyncStepLogic::EndBatchRound() {
  set_ = round_.target_set;
  CurrentBatch& batch = *current_;
  const bool is_owed = std::any_of(groups_.begin(), groups_.end(), [](const Group& group) {
    return std::find(group.owed.begin(), group.owed.end(), 1) != group.owed.end();
  });
  if (batch.is_dropped || batch.is_withheld) {
    DropBatch();
  } else if (!batch.is_bad && !is_owed) {
    finished_.push_back(batch.batch);
    ++num_finished_;
    current_.reset();
  } else if (round_.was_refused && ++batch.refusals == kRefusalsBeforeNotice) {
    must_ask_ = true;
  }
}

// The chief decides what becomes of it; its next answer says so.
void AsyncStepLogic::DropBatch() {
  current_.reset();
  must_ask_ = true;
}

void AsyncStepLogic::OnNoRows(uint64_t ticket) {
  if (ticket != round_.ticket) return;
  if (round_.kind == AsyncAction::kCompute) DropBatch();
  must_ask_ = true;
  round_ = Round();
}

void AsyncStepLogic::OnEvaluated(uint64_t ticket) {
  if (ticket != round_.ticket || round_.kind != AsyncAction::kEvaluate) return;
  if (round_.block.version() == evaluated_version_) evaluated_.insert(round_.block.block());
  round_ = Round();
  if (blocks_.empty()) must_ask_ = true;
}

void AsyncStepLogic::OnReported(uint64_t ticket) {
  if (ticket != round_.ticket || round_.kind != AsyncAction::kReportBad) return;
  round_ = Round();
  DropBatch();
}

std::optional<BatchKey> AsyncStepLogic::current_batch() const {
  if (!current_.has_value()) return std::nullopt;
  return current_->batch;
}

std::string AsyncStepLogic::Activity() const {
  switch (round_.kind) {
    case AsyncAction::kPull:
      return "pulling the newest values";
    case AsyncAction::kEvaluate:
      return absl::StrCat("evaluating block ", round_.block.block());
    case AsyncAction::kReportBad:
      return "reporting a batch that is not finite";
    case AsyncAction::kCompute:
      return ToString(current_->batch);
    default:
      return view_.training ? "waiting for batches" : "waiting for the run";
  }
}

}  // namespace shoal
