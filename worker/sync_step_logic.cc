#include "worker/sync_step_logic.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal {

SyncStepLogic::SyncStepLogic(Options options, const StepPlan& plan)
    : options_(std::move(options)), plan_(plan), groups_(options_.group_versioned.size()) {
  num_versioned_groups_ = static_cast<uint32_t>(
      std::count(options_.group_versioned.begin(), options_.group_versioned.end(), true));
  action_groups_.reserve(groups_.size());
}

// The known state of the run.

void SyncStepLogic::OnView(const SyncView& view) {
  if (view.number < view_.number) return;
  const bool moved = view.lineage != view_.lineage;
  const bool was_active = view_.training && IsMember();
  view_ = view;
  rank_ = static_cast<uint64_t>(
      std::find(view.workers.begin(), view.workers.end(), options_.worker) - view.workers.begin());
  if (moved) set_has_unversioned_[0] = set_has_unversioned_[1] = false;
  const bool is_active = view_.training && IsMember();
  if (!is_active) {
    state_ = State::kIdle;
    ++round_;
  } else if (moved || !was_active) {
    Restart();
  }
}

// Asks for the versions of the slices.
void SyncStepLogic::Restart() {
  ++round_;
  state_ = State::kFinding;
  for (GroupState& group : groups_) group = GroupState();
}

// Now the parameters of current_set_ are version step_, and step_ + 1 is pulled into the other set.
void SyncStepLogic::StartStep(absl::Time now) {
  state_ = State::kAtStep;
  set_has_unversioned_[current_set_] = true;
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i] = GroupState();
    groups_[i].holds_target =
        !options_.group_versioned[i] && set_has_unversioned_[1 - current_set_];
  }
  positions_.assign(plan_.At(step_).num_batches, PositionState::kTodo);
  retry_ = absl::InfiniteFuture();
  evaluated_.clear();
  evaluations_left_ = 0;
  missing_positions_.clear();
  received_missing_ = false;
  help_.StartStep(now, step_, Place(), /*is_usual=*/!view_.evaluations.Contains(plan_, step_));
}

bool SyncStepLogic::AllHoldTarget() const {
  return std::all_of(groups_.begin(), groups_.end(),
                     [](const GroupState& group) { return group.holds_target; });
}

void SyncStepLogic::AdvanceIfComplete(absl::Time now) {
  if (state_ == State::kPulling && AllHoldTarget()) {
    StartStep(now);
  } else if (state_ == State::kAtStep && step_ < view_.last_step && evaluations_left_ == 0 &&
             AllHoldTarget()) {
    ++round_;  // late results of this step only free buffers
    ++step_;
    current_set_ = 1 - current_set_;
    StartStep(now);
  }
}

// The next action of the trainer.

SyncAction SyncStepLogic::Next(absl::Time now) {
  SyncAction action;
  action_groups_.clear();
  AdvanceIfComplete(now);
  RetryIfDue(now);
  switch (state_) {
    case State::kIdle:
      return action;
    case State::kFinding:
      NextFinding(&action);
      return action;
    case State::kPulling:
      NextPull(now, &action);
      return action;
    case State::kAtStep:
      break;
  }
  if (NextEvaluation(&action) || NextReport(&action) || NextCompute(now, &action)) return action;
  const bool helps = HelpIfLate(now);
  // Before help is computed: the version may be there when that ends.
  if (NextPull(now, &action)) return action;
  if (helps && (NextEvaluation(&action) || NextCompute(now, &action))) return action;
  action.wake = retry_;
  return action;
}

// The chief may decide that a batch that was withheld or reported is computed again. So after a
// while the worker computes those that are neither skipped nor delivered.
void SyncStepLogic::RetryIfDue(absl::Time now) {
  if (now >= retry_) {
    retry_ = absl::InfiniteFuture();
    for (PositionState& position : positions_) {
      if (position == PositionState::kWithheld || position == PositionState::kReported)
        position = PositionState::kTodo;
    }
  }
  if (std::exchange(was_reported_, false)) retry_ = std::min(retry_, now + options_.withheld_retry);
}

SyncStepLogic::Ticket& SyncStepLogic::Open(SyncAction* action, SyncAction::Kind kind,
                                           uint32_t num_groups) {
  Ticket& ticket = tickets_.emplace_back();
  ticket.id = next_ticket_++;
  ticket.kind = kind;
  ticket.round = round_;
  ticket.groups_left = num_groups;
  ticket.step = step_;
  action->kind = kind;
  action->ticket = ticket.id;
  action->lineage = view_.lineage;
  action->version = step_;
  action->parameter_set = current_set_;
  return ticket;
}

bool SyncStepLogic::NextFinding(SyncAction* action) {
  if (AnyPullOfOlderRound()) return false;  // it bounds the exchanges that are under way
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].has_version || groups_[i].in_flight) continue;
    groups_[i].in_flight = true;
    action_groups_.push_back(i);
  }
  if (action_groups_.empty()) return false;
  Open(action, SyncAction::kQueryVersions, static_cast<uint32_t>(action_groups_.size()));
  action->groups = action_groups_;
  return true;
}

// kPulling: the version where the worker starts. kAtStep: the next version, once nothing is left to
// compute.
bool SyncStepLogic::NextPull(absl::Time now, SyncAction* action) {
  const bool is_first = state_ == State::kPulling;
  if (!is_first && step_ >= view_.last_step) return false;
  if (is_first && AnyPullOfOlderRound()) return false;  // it might still write into the set
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].holds_target || groups_[i].in_flight) continue;
    groups_[i].in_flight = true;
    action_groups_.push_back(i);
  }
  if (action_groups_.empty()) return false;
  Open(action, SyncAction::kPull, static_cast<uint32_t>(action_groups_.size())).pulls = true;
  action->groups = action_groups_;
  action->park = StepHelp::kLongestPark;
  if (!is_first) {
    action->version = step_ + 1;
    action->parameter_set = 1 - current_set_;
    action->park = help_.Park(now, Place());
  }
  return true;
}

bool SyncStepLogic::AnyPullOfOlderRound() const {
  return std::any_of(tickets_.begin(), tickets_.end(), [this](const Ticket& ticket) {
    return (ticket.pulls || ticket.kind == SyncAction::kQueryVersions) && ticket.round != round_;
  });
}

bool SyncStepLogic::HasPosition(uint32_t position) const {
  return position % view_.workers.size() == rank_ || help_.Covers(position);
}

std::optional<uint32_t> SyncStepLogic::FindOtherWorker(uint32_t position) const {
  const uint64_t rank = position % view_.workers.size();
  return rank == rank_ ? std::nullopt : std::optional<uint32_t>(view_.workers[rank]);
}

// Returns true if the worker has one more position to compute.
bool SyncStepLogic::HelpIfLate(absl::Time now) {
  if (step_ >= view_.last_step || evaluations_left_ > 0) return false;
  help_.OnIdle(now);
  if (!std::exchange(received_missing_, false)) return false;
  const auto may_take = [this](uint32_t position) {
    return positions_[position] == PositionState::kTodo && FindOtherWorker(position).has_value() &&
           !IsDecided(position);
  };
  return help_.Consider(now, Place(), missing_positions_, may_take).has_value();
}

bool SyncStepLogic::NextEvaluation(SyncAction* action) {
  if (!view_.evaluations.Contains(plan_, step_)) return false;
  for (uint64_t block = 0; block < options_.num_evaluation_blocks; ++block) {
    if (!HasPosition(static_cast<uint32_t>(block % positions_.size()))) continue;
    if (!evaluated_.insert(block).second) continue;
    ++evaluations_left_;
    Open(action, SyncAction::kEvaluate, 0).block = block;
    action->block = block;
    return true;
  }
  return false;
}

bool SyncStepLogic::NextReport(SyncAction* action) {
  for (uint32_t position = 0; position < positions_.size(); ++position) {
    if (positions_[position] != PositionState::kBad) continue;
    positions_[position] = PositionState::kReporting;
    Open(action, SyncAction::kReportBad, 0).position = position;
    action->batch = plan_.BatchAt(step_, position);
    action->position = position;
    return true;
  }
  return false;
}

bool SyncStepLogic::IsPending(uint32_t position) const {
  return positions_[position] == PositionState::kTodo && HasPosition(position) &&
         !IsDecided(position);
}

bool SyncStepLogic::IsDecided(uint32_t position) const {
  const BatchKey batch = plan_.BatchAt(step_, position);
  return view_.skipped.count(batch) > 0 || view_.delivered.count(batch) > 0;
}

std::optional<uint32_t> SyncStepLogic::FreeGradientSet() const {
  bool used[2] = {false, false};
  for (const Ticket& ticket : tickets_) {
    if (ticket.kind == SyncAction::kCompute) used[ticket.gradient_set] = true;
  }
  if (!used[0]) return 0;
  if (!used[1]) return 1;
  return std::nullopt;
}

bool SyncStepLogic::NextCompute(absl::Time now, SyncAction* action) {
  if (step_ >= view_.last_step || evaluations_left_ > 0) return false;
  std::vector<PositionState>::size_type position = 0;
  const auto num_positions = positions_.size();
  while (position < num_positions && !IsPending(static_cast<uint32_t>(position))) ++position;
  if (position == num_positions) return false;
  const std::optional<uint32_t> gradient_set = FreeGradientSet();
  if (!gradient_set.has_value()) {  // wait for one; nothing else to do first
    action->wake = retry_;
    return true;
  }

  bool is_last = true;
  for (auto later = position + 1; later < num_positions && is_last; ++later) {
    is_last = !IsPending(static_cast<uint32_t>(later));
  }
  // Pulls that are under way or done already are not asked for twice.
  for (size_t i = 0; i < groups_.size() && is_last; ++i) {
    is_last = !options_.group_versioned[i] || !(groups_[i].in_flight || groups_[i].holds_target);
  }
  positions_[position] = PositionState::kPushing;
  Ticket& ticket = Open(action, SyncAction::kCompute, num_versioned_groups_);
  ticket.position = static_cast<uint32_t>(position);
  ticket.gradient_set = *gradient_set;
  ticket.helps = FindOtherWorker(ticket.position);
  ticket.pulls = is_last;
  action->position = ticket.position;
  action->batch = plan_.BatchAt(step_, ticket.position);
  action->batch_examples = plan_.ExamplesIn(action->batch);
  action->gradient_set = *gradient_set;
  action->pull_next = is_last;
  if (is_last) action->park = help_.Park(now, Place());
  action->next_parameter_set = 1 - current_set_;
  for (size_t i = 0; i < groups_.size() && is_last; ++i)
    groups_[i].in_flight |= options_.group_versioned[i];
  return true;
}

// The results of the trainer's actions.

SyncStepLogic::Ticket* SyncStepLogic::Find(uint64_t id) {
  const auto it = std::find_if(tickets_.begin(), tickets_.end(),
                               [id](const Ticket& ticket) { return ticket.id == id; });
  return it == tickets_.end() ? nullptr : &*it;
}

void SyncStepLogic::OnExchange(absl::Time now, uint64_t id, uint32_t group,
                               const ExchangeResult& result) {
  Ticket* const ticket = Find(id);
  if (ticket == nullptr || group >= groups_.size()) return;
  // A contribution to a step that is through counts here too: it may be answered after the version
  // is there.
  if (ticket->kind == SyncAction::kCompute) TakeOutcomes(*ticket, result);
  if (!result.status.ok()) ticket->lost = true;
  if (ticket->round == round_) {
    if (!result.status.ok()) {
      // The store has moved to a lineage that is not known here yet; OnView will tell.
      state_ = State::kIdle;
      view_.training = false;
      ++round_;
    } else {
      if (ticket->kind == SyncAction::kQueryVersions) TakeVersions(group, result);
      if (ticket->kind != SyncAction::kQueryVersions && ticket->pulls) TakePulls(group, result);
    }
  }
  FinishGroup(now, id);
}

void SyncStepLogic::OnNotPushed(absl::Time now, uint64_t id, uint32_t group) {
  Ticket* const ticket = Find(id);
  if (ticket == nullptr || group >= groups_.size()) return;
  ticket->bad = true;
  if (ticket->round == round_ && ticket->pulls) groups_[group].in_flight = false;
  FinishGroup(now, id);
}

void SyncStepLogic::FinishGroup(absl::Time now, uint64_t id) {
  // A restart does not touch the tickets, so it is still there.
  Ticket* const ticket = Find(id);
  if (--ticket->groups_left > 0) return;
  if (ticket->kind == SyncAction::kCompute && ticket->round == round_) {
    PositionState& position = positions_[ticket->position];
    position = ticket->bad        ? PositionState::kBad
               : ticket->withheld ? PositionState::kWithheld
                                  : PositionState::kPushed;
    if (position == PositionState::kWithheld && ticket->helps.has_value()) {
      help_.GiveUp(ticket->position);  // its own worker sees to it
      position = PositionState::kTodo;
    } else if (position == PositionState::kWithheld) {
      retry_ = now + options_.withheld_retry;
    }
  }
  if (ticket->helps.has_value() && !ticket->bad && !ticket->withheld && !ticket->lost) {
    help_.OnDelivered(ticket->step, ticket->position, *ticket->helps, !ticket->duplicate);
  }
  Close(id);
}

void SyncStepLogic::Close(uint64_t id) {
  *Find(id) = tickets_.back();
  tickets_.pop_back();
}

void SyncStepLogic::TakeOutcomes(Ticket& ticket, const ExchangeResult& result) {
  for (PushOutcome outcome : result.outcomes) {
    switch (outcome) {
      case PushOutcome::kNonFinite:
        ticket.bad = true;
        break;
      case PushOutcome::kDuplicate:
        ticket.duplicate = true;
        break;
      case PushOutcome::kAccepted:
      case PushOutcome::kNone:
        break;
      default:
        // The batch is withheld, or was not taken for another reason: compute it again after a
        // while.
        ticket.withheld = true;
    }
  }
}

void SyncStepLogic::TakeVersions(uint32_t index, const ExchangeResult& result) {
  GroupState& group = groups_[index];
  group.in_flight = false;
  group.has_version = true;
  group.version = kEveryVersion;
  for (const PulledSlice& slice : result.pulls)
    group.version = std::min(group.version, slice.version);
  uint64_t lowest = kEveryVersion;
  for (const GroupState& other : groups_) {
    if (!other.has_version) return;
    lowest = std::min(lowest, other.version);
  }
  // Steps past the end can only have been skipped: the values are those of the end.
  step_ = std::min(lowest, view_.last_step);
  state_ = State::kPulling;
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i] = GroupState();
    groups_[i].holds_target = !options_.group_versioned[i] && set_has_unversioned_[current_set_];
  }
}

void SyncStepLogic::TakePulls(uint32_t index, const ExchangeResult& result) {
  const uint64_t wanted = state_ == State::kPulling ? step_ : step_ + 1;
  GroupState& group = groups_[index];
  group.in_flight = false;
  bool holds_all = true;
  bool is_gone = false;
  for (const PulledSlice& slice : result.pulls) {
    holds_all = holds_all && slice.has_value;
    is_gone = is_gone || (!slice.has_value && slice.version >= wanted);
  }
  if (is_gone) {
    Restart();  // the others continued without this worker
    return;
  }
  group.holds_target = holds_all;
  if (!holds_all) {
    missing_positions_.assign(result.missing_positions.begin(), result.missing_positions.end());
    received_missing_ = true;
  }
}

void SyncStepLogic::OnNoRows(uint64_t id) {
  const Ticket* const ticket = Find(id);
  if (ticket == nullptr) return;
  const bool is_current = ticket->round == round_;
  Close(id);
  if (is_current) Restart();
}

void SyncStepLogic::OnEvaluated(uint64_t id) {
  const Ticket* const ticket = Find(id);
  if (ticket == nullptr) return;
  if (ticket->kind == SyncAction::kEvaluate && ticket->round == round_ && evaluations_left_ > 0)
    --evaluations_left_;
  Close(id);
}

void SyncStepLogic::OnReported(uint64_t id) {
  const Ticket* const ticket = Find(id);
  if (ticket == nullptr) return;
  if (ticket->round == round_) {
    positions_[ticket->position] = PositionState::kReported;
    was_reported_ = true;
  }
  Close(id);
}

std::string SyncStepLogic::Activity() const {
  switch (state_) {
    case State::kIdle:
      return view_.training ? "waiting to join" : "waiting for the run's state";
    case State::kFinding:
      return "asking for versions";
    case State::kPulling:
      return absl::StrCat("pulling version ", step_);
    case State::kAtStep:
      break;
  }
  if (step_ >= view_.last_step) return absl::StrCat("at the end, version ", step_);
  if (missing_positions_.empty()) return absl::StrCat("at step ", step_);
  return absl::StrCat("at step ", step_, ", waiting for positions ",
                      absl::StrJoin(missing_positions_, ", "));
}

}  // namespace shoal
