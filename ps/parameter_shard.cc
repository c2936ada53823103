#include "ps/parameter_shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/identity.pb.h"

namespace shoal {
namespace {

absl::Status Moved() { return absl::AbortedError("moved: the variables were loaded anew"); }

}  // namespace

ParameterShard::ParameterShard(const Clock* clock, ShardObserver* observer)
    : clock_(clock), observer_(observer) {}

ParameterShard::~ParameterShard() { Drain(); }

void ParameterShard::SetRules(const ReceiverRules& rules, std::function<bool()> may_act) {
  MutexLock lock(&mutex_);
  rules_ = std::make_unique<ReceiverRules>(rules);
  may_act_ = std::move(may_act);
}

absl::Status ParameterShard::CheckCommand(const v1::Identity& sender) {
  MutexLock lock(&mutex_);
  if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
  return rules_->CheckSender(sender);
}

absl::StatusOr<bool> ParameterShard::BeginLoad(const v1::Identity& sender) {
  Waiters ended;
  std::shared_ptr<SliceStore> old;  // Freed without the lock.
  {
    MutexLock lock(&mutex_);
    if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
    RETURN_IF_ERROR(rules_->CheckSender(sender));
    if (phase_ == Phase::kDraining) return absl::UnavailableError("this ps is stopping");
    if (phase_ == Phase::kLoading) {
      return absl::UnavailableError("this ps is still loading; ask again");
    }
    if (phase_ == Phase::kServing && rules_->lineage() == sender.lineage()) return false;
    if (sender.lineage() < rules_->lineage()) {
      return absl::AbortedError("moved: a newer lineage has been loaded");
    }
    phase_ = Phase::kLoading;
    loading_lineage_ = sender.lineage();
    ++generation_;
    EndWaiting(Moved(), &ended);
    old = std::move(store_);
  }
  Tell(ended);
  return true;
}

void ParameterShard::EndLoad(std::unique_ptr<SliceStore> store) {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kLoading) return;  // Stopped meanwhile.
  store_ = std::move(store);
  phase_ = store_ == nullptr ? Phase::kBlank : Phase::kServing;
  if (store_ == nullptr) return;
  rules_->set_lineage(loading_lineage_);
  observer_->OnLineage(loading_lineage_);
  Waiters complete;  // Nobody waits yet.
  TakeEvents(&complete);
}

absl::Status ParameterShard::CheckServing(uint64_t generation) const {
  if (phase_ == Phase::kDraining) return absl::UnavailableError("this ps is stopping");
  if (generation != generation_) return Moved();
  if (phase_ != Phase::kServing) return absl::UnavailableError("this ps has no variables yet");
  if (!may_act_()) return absl::UnavailableError("this ps cannot reach the chief");
  return absl::OkStatus();
}

absl::Status ParameterShard::Command(const v1::Identity& sender,
                                     const std::function<void(SliceStore*)>& command) {
  Waiters complete;
  {
    MutexLock lock(&mutex_);
    if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
    RETURN_IF_ERROR(rules_->CheckSenderAndLineage(sender, rules_->incarnation()));
    RETURN_IF_ERROR(CheckServing(generation_));
    command(store_.get());
    TakeEvents(&complete);
  }
  Tell(complete);
  return absl::OkStatus();
}

absl::Status ParameterShard::CommandOfOwn(uint64_t lineage,
                                          const std::function<void(SliceStore*)>& command) {
  Waiters complete;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckServing(generation_));
    if (rules_->lineage() != lineage) return Moved();
    command(store_.get());
    TakeEvents(&complete);
  }
  Tell(complete);
  return absl::OkStatus();
}

absl::StatusOr<ParameterShard::Access> ParameterShard::Enter(const v1::Identity& sender,
                                                             uint64_t receiver_incarnation) {
  MutexLock lock(&mutex_);
  if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
  if (phase_ != Phase::kServing) {
    RETURN_IF_ERROR(rules_->CheckSender(sender));
    return CheckServing(generation_);
  }
  RETURN_IF_ERROR(rules_->CheckSenderAndLineage(sender, receiver_incarnation));
  RETURN_IF_ERROR(CheckServing(generation_));
  return Access{generation_, rules_->lineage(),
                std::shared_ptr<const SliceTable>(store_, &store_->table())};
}

absl::Status ParameterShard::CheckOwnsAll(const Access& access, absl::Span<const uint32_t> slices) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckServing(access.generation));
  for (const uint32_t slice : slices) {
    if (!store_->Owns(slice)) {
      return absl::InvalidArgumentError(absl::StrCat("slice ", slice, " is not of this ps"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterShard::CheckExamples(const Access& access, const BatchKey& batch,
                                           uint32_t examples) {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckServing(access.generation));
  const StepPlan& plan = store_->plan();
  // A batch that is not of the plan is refused by its slices.
  if (!plan.Covers(batch) || plan.ExamplesIn(batch) == examples) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("batch_examples is ", examples, ", but batch ",
                                                 batch.index, " of epoch ", batch.epoch, " has ",
                                                 plan.ExamplesIn(batch)));
}

absl::StatusOr<PushOutcome> ParameterShard::Push(const Access& access, const SlicePush& push) {
  Waiters complete;
  PushOutcome outcome = PushOutcome::kNone;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckServing(access.generation));
    outcome = store_->Push(push);
    TakeEvents(&complete);
  }
  Tell(complete);
  return outcome;
}

void ParameterShard::Pull(const Access& access, PullWaiter* waiter) {
  waiter->asks.clear();
  waiter->answers.clear();
  Wait(access, !waiter->versions_only, waiter);
}

void ParameterShard::AskForRoom(const Access& access, PullWaiter* waiter) {
  waiter->slices.clear();
  waiter->answers.clear();
  Wait(access, true, waiter);
}

void ParameterShard::Wait(const Access& access, bool may_wait, PullWaiter* waiter) {
  waiter->missing_positions.clear();
  waiter->lineage = access.lineage;
  waiter->first_waiting_ = 0;
  waiter->has_room = false;
  {
    MutexLock lock(&mutex_);
    waiter->status = CheckServing(access.generation);
    if (waiter->status.ok()) {
      if (may_wait && waiter->park > absl::ZeroDuration() && !IsComplete(waiter)) {
        waiter->give_up_ = clock_->Now() + waiter->park;
        waiting_.push_back(waiter);
        if (!waiter->asks.empty()) ++num_asking_;
        if (waiter->give_up_ < awake_at_) changed_.NotifyAll();
        return;
      }
      Answer(waiter);
    }
  }
  waiter->OnPulled();
}

void ParameterShard::AppendMissingPositions(const Access& access, uint32_t slice,
                                            std::vector<uint32_t>* positions) {
  MutexLock lock(&mutex_);
  if (CheckServing(access.generation).ok()) store_->AppendMissingPositions(slice, positions);
}

void ParameterShard::TakeEvents(Waiters* complete) {
  store_->TakeEvents(&events_);
  // Room may have become free without an event.
  if (!waiting_.empty() && (num_asking_ > 0 || !events_.advances.empty())) {
    CollectComplete(complete);
  }
  if (!events_.empty()) observer_->OnEvents(&events_);
}

void ParameterShard::CollectComplete(Waiters* complete) {
  if (num_asking_ > 0) {
    // Free room goes to the lowest positions.
    std::sort(waiting_.begin(), waiting_.end(), [](const PullWaiter* a, const PullWaiter* b) {
      if (a->asks.empty() || b->asks.empty()) return !a->asks.empty() && b->asks.empty();
      return a->asks[0].position < b->asks[0].position;
    });
  }
  size_t still = 0;
  for (PullWaiter* waiter : waiting_) {
    if (!IsComplete(waiter)) {
      waiting_[still++] = waiter;
      continue;
    }
    if (!waiter->asks.empty()) --num_asking_;
    Answer(waiter);
    complete->push_back(waiter);
  }
  waiting_.resize(still);
}

bool ParameterShard::IsComplete(PullWaiter* waiter) const {
  if (!waiter->asks.empty()) return FindRoom(waiter);
  size_t& first = waiter->first_waiting_;
  while (first < waiter->slices.size() &&
         store_->TryPull(waiter->slices[first], waiter->version).state != PullAnswer::kNotYet) {
    ++first;
  }
  return first == waiter->slices.size();
}

bool ParameterShard::FindRoom(PullWaiter* waiter) const {
  size_t& first = waiter->first_waiting_;
  while (first < waiter->asks.size() && store_->MakeRoom(waiter->asks[first])) ++first;
  return first == waiter->asks.size();
}

void ParameterShard::Answer(PullWaiter* waiter) const {
  waiter->status = absl::OkStatus();
  if (!waiter->asks.empty()) {
    waiter->has_room = FindRoom(waiter);
    if (!waiter->has_room) {
      store_->AppendMissingPositions(waiter->asks[waiter->first_waiting_].slice,
                                     &waiter->missing_positions);
    }
    return;
  }
  bool is_all_there = true;
  for (const uint32_t slice : waiter->slices) {
    if (waiter->versions_only) {
      PullAnswer& answer = waiter->answers.emplace_back();
      answer.state = PullAnswer::kNotYet;
      answer.version = store_->newest_version(slice);
      continue;
    }
    waiter->answers.push_back(store_->TryPull(slice, waiter->version));
    if (is_all_there && waiter->answers.back().state == PullAnswer::kNotYet) {
      is_all_there = false;
      store_->AppendMissingPositions(slice, &waiter->missing_positions);
    }
  }
}

void ParameterShard::EndWaiting(const absl::Status& status, Waiters* ended) {
  for (PullWaiter* waiter : waiting_) waiter->status = status;
  ended->insert(ended->end(), waiting_.begin(), waiting_.end());
  waiting_.clear();
  num_asking_ = 0;
}

void ParameterShard::Tell(const Waiters& waiters) {
  for (PullWaiter* waiter : waiters) waiter->OnPulled();
}

void ParameterShard::Drain() {
  Waiters ended;
  {
    MutexLock lock(&mutex_);
    phase_ = Phase::kDraining;
    ++generation_;
    EndWaiting(absl::UnavailableError("this ps is stopping"), &ended);
    changed_.NotifyAll();
  }
  Tell(ended);
}

absl::Time ParameterShard::NextGiveUp() const {
  absl::Time next = absl::InfiniteFuture();
  for (const PullWaiter* waiter : waiting_) next = std::min(next, waiter->give_up_);
  return next;
}

absl::Time ParameterShard::Tick() {
  Waiters late;
  absl::Time next;
  {
    MutexLock lock(&mutex_);
    const absl::Time now = clock_->Now();
    const auto in_time =
        std::partition(waiting_.begin(), waiting_.end(),
                       [now](const PullWaiter* waiter) { return waiter->give_up_ > now; });
    for (auto it = in_time; it != waiting_.end(); ++it) {
      if (!(*it)->asks.empty()) --num_asking_;
      Answer(*it);
      late.push_back(*it);
    }
    waiting_.erase(in_time, waiting_.end());
    next = NextGiveUp();
  }
  Tell(late);
  return next;
}

void ParameterShard::RunTimer() {
  while (true) {
    Tick();
    MutexLock lock(&mutex_);
    if (phase_ == Phase::kDraining) return;
    awake_at_ = NextGiveUp();
    if (awake_at_ > clock_->Now()) clock_->WaitUntil(awake_at_, &mutex_, &changed_);
    awake_at_ = absl::InfinitePast();
  }
}

}  // namespace shoal
