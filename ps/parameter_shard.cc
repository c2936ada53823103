#include "ps/parameter_shard.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/identity.pb.h"

namespace shoal {
namespace {

absl::Status Moved() { return absl::AbortedError("moved: the variables were loaded again"); }
absl::Status Stopping() { return absl::UnavailableError("this ps is stopping"); }
absl::Status MayNotAct() { return absl::UnavailableError("this ps cannot reach the chief"); }

}  // namespace

ParameterShard::ParameterShard(const Clock* clock, ShardObserver* observer)
    : clock_(clock), observer_(observer) {}

ParameterShard::~ParameterShard() { Drain(); }

void ParameterShard::SetRules(const ReceiverRules& rules, std::function<bool()> may_act) {
  MutexLock lock(&mutex_);
  rules_ = std::make_unique<ReceiverRules>(rules);
  may_act_ = std::make_shared<const std::function<bool()>>(std::move(may_act));
}

void ParameterShard::LearnWorkers(const std::map<uint32_t, uint64_t>& incarnations) {
  MutexLock lock(&mutex_);
  if (rules_ != nullptr) rules_->LearnWorkers(incarnations);
}

absl::Status ParameterShard::CheckCommand(const v1::Identity& sender) {
  MutexLock lock(&mutex_);
  if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
  return rules_->CheckCommand(sender);
}

absl::StatusOr<bool> ParameterShard::BeginLoad(const v1::Identity& sender) {
  std::shared_ptr<ServedSlices> old;  // Freed without the lock.
  {
    MutexLock lock(&mutex_);
    if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
    RETURN_IF_ERROR(rules_->CheckCommand(sender));
    if (phase_ == Phase::kDraining) return Stopping();
    if (phase_ == Phase::kLoading) {
      return absl::UnavailableError("this ps is still loading; ask again");
    }
    if (phase_ == Phase::kServing && rules_->lineage() == sender.lineage()) return false;
    if (sender.lineage() < rules_->lineage()) {
      return absl::AbortedError("moved: a newer lineage has been loaded");
    }
    phase_ = Phase::kLoading;
    loading_lineage_ = sender.lineage();
    old = std::move(served_);
  }
  EndServed(Moved(), old.get());
  return true;
}

void ParameterShard::EndLoad(std::unique_ptr<SliceStore> store) {
  EndLoad(std::make_unique<PartitionedStore>(std::move(store)));
}

void ParameterShard::EndLoad(std::unique_ptr<PartitionedStore> store) {
  MutexLock lock(&mutex_);
  if (phase_ != Phase::kLoading) return;  // Stopped meanwhile.
  phase_ = store == nullptr ? Phase::kBlank : Phase::kServing;
  if (store == nullptr) return;
  served_ = std::make_shared<ServedSlices>(loading_lineage_, std::move(store));
  rules_->set_lineage(loading_lineage_);
  {
    MutexLock events_lock(&events_mutex_);
    observer_->OnLineage(loading_lineage_);
  }
  for (const auto& part : served_->parts) {
    MutexLock part_lock(&part->mutex);
    Waiters complete;  // Nobody waits yet.
    TakeEvents(served_.get(), part.get(), &complete);
  }
}

absl::Status ParameterShard::CheckServing() const {
  if (phase_ == Phase::kDraining) return Stopping();
  if (phase_ != Phase::kServing) return absl::UnavailableError("this ps has no variables yet");
  if (!(*may_act_)()) return MayNotAct();
  return absl::OkStatus();
}

absl::Status ParameterShard::Command(const v1::Identity& sender,
                                     const std::function<void(PartitionedStore*)>& command) {
  std::shared_ptr<ServedSlices> served;
  {
    MutexLock lock(&mutex_);
    if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
    RETURN_IF_ERROR(rules_->CheckCommandAndLineage(sender));
    RETURN_IF_ERROR(CheckServing());
    served = served_;
  }
  return RunCommand(served.get(), command);
}

absl::Status ParameterShard::CommandOfOwn(uint64_t lineage,
                                          const std::function<void(PartitionedStore*)>& command) {
  std::shared_ptr<ServedSlices> served;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckServing());
    if (rules_->lineage() != lineage) return Moved();
    served = served_;
  }
  return RunCommand(served.get(), command);
}

absl::Status ParameterShard::RunCommand(ServedSlices* served,
                                        const std::function<void(PartitionedStore*)>& command) {
  std::vector<Waiters> complete(served->parts.size());
  served->LockAll();
  served->parts[0]->mutex.AssertHeld();
  const absl::Status over = served->parts[0]->over;
  if (over.ok()) {
    command(served->store.get());
    for (const auto& part : served->parts) {
      part->mutex.AssertHeld();
      TakeEvents(served, part.get(), &complete[part->index]);
    }
  }
  served->UnlockAll();
  for (const Waiters& waiters : complete) ContinueAll(served, waiters);
  return over;
}

void ParameterShard::EndServed(const absl::Status& status, ServedSlices* served) {
  if (served == nullptr) return;
  for (const auto& part : served->parts) {
    for (PullWaiter* waiter : part->End(status)) {
      waiter->status = status;
      waiter->OnPulled();
    }
  }
}

absl::StatusOr<ParameterShard::Access> ParameterShard::Enter(const v1::Identity& sender,
                                                             uint64_t receiver_incarnation) {
  MutexLock lock(&mutex_);
  if (rules_ == nullptr) return absl::UnavailableError("this ps has not registered yet");
  if (phase_ != Phase::kServing) {
    RETURN_IF_ERROR(rules_->CheckExchange(sender));
    return CheckServing();
  }
  RETURN_IF_ERROR(rules_->CheckExchangeAndLineage(sender, receiver_incarnation));
  RETURN_IF_ERROR(CheckServing());
  return Access{served_->lineage, &served_->store->table(), served_, may_act_};
}

absl::Status ParameterShard::CheckOwnsAll(const Access& access,
                                          absl::Span<const uint32_t> slices) const {
  for (const uint32_t slice : slices) {
    if (!access.served->store->Owns(slice)) {
      return absl::InvalidArgumentError(
          absl::StrCat("slice ", slice, " does not belong to this ps"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParameterShard::CheckExamples(const Access& access, const BatchKey& batch,
                                           uint32_t examples) const {
  const StepPlan& plan = access.served->store->plan();
  // A batch that is not of the plan is refused by its slices.
  if (!plan.Covers(batch) || plan.ExamplesIn(batch) == examples) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("batch_examples is ", examples, ", but ",
                                                 ToString(batch), " has ", plan.ExamplesIn(batch)));
}

void ParameterShard::RunJob(const Access& access, absl::Span<const uint32_t> slices,
                            ShardStrand::Job* job) const {
  // The job may end the access, and with it the slices.
  const std::shared_ptr<ServedSlices> served = access.served;
  ShardPart* const part = slices.empty() ? nullptr : served->PartOf(slices[0]);
  const bool is_one =
      part != nullptr && std::all_of(slices.begin(), slices.end(),
                                     [part](uint32_t slice) { return part->Has(slice); });
  if (is_one) {
    part->strand.Run(job);
  } else {
    job->Run();
  }
}

absl::StatusOr<PushOutcome> ParameterShard::Push(const Access& access, const SlicePush& push) {
  ServedSlices* const served = access.served.get();
  if (!served->store->Owns(push.slice)) return PushOutcome::kAhead;
  ShardPart* const part = served->PartOf(push.slice);
  Waiters complete;
  PushOutcome outcome = PushOutcome::kNone;
  {
    MutexLock lock(&part->mutex);
    RETURN_IF_ERROR(part->over);
    if (!(*access.may_act)()) return MayNotAct();
    outcome = part->store->Push(push);
    TakeEvents(served, part, &complete);
  }
  ContinueAll(served, complete);
  return outcome;
}

void ParameterShard::AppendMissingPositions(const Access& access, uint32_t slice,
                                            std::vector<uint32_t>* positions) {
  ShardPart* const part = access.served->PartOf(slice);
  MutexLock lock(&part->mutex);
  part->store->AppendMissingPositions(slice, positions);
}

void ParameterShard::Pull(const Access& access, PullWaiter* waiter) {
  waiter->asks.clear();
  Wait(access, !waiter->versions_only, waiter);
}

void ParameterShard::AskForRoom(const Access& access, PullWaiter* waiter) {
  waiter->slices.clear();
  Wait(access, true, waiter);
}

void ParameterShard::Wait(const Access& access, bool may_wait, PullWaiter* waiter) {
  waiter->status = absl::OkStatus();
  waiter->lineage = access.lineage;
  waiter->answers.assign(waiter->slices.size(), PullAnswer());
  waiter->missing_positions.clear();
  waiter->has_room = !waiter->asks.empty();
  waiter->part_ = waiter->first_waiting_ = 0;
  const bool waits = may_wait && waiter->park > absl::ZeroDuration();
  waiter->give_up_ = waits ? clock_->Now() + waiter->park : absl::InfinitePast();
  waiter->may_act_ = access.may_act;
  if ((*access.may_act)()) {
    // The waiter may end the access.
    const std::shared_ptr<ServedSlices> served = access.served;
    Continue(served.get(), waiter);
  } else {
    waiter->status = MayNotAct();
    waiter->OnPulled();
  }
}

void ParameterShard::Continue(ServedSlices* served, PullWaiter* waiter) {
  for (; waiter->part_ < served->parts.size(); ++waiter->part_, waiter->first_waiting_ = 0) {
    ShardPart* const part = served->parts[waiter->part_].get();
    if (!part->Concerns(*waiter)) continue;
    MutexLock lock(&part->mutex);
    waiter->status = part->over;
    if (!waiter->status.ok()) break;
    if (waiter->give_up_ != absl::InfinitePast() && !part->IsComplete(waiter)) {
      part->AddWaiting(waiter);
      NoteGiveUp(waiter->give_up_);
      return;
    }
    part->Answer(waiter);
  }
  // The lease may have ended while the pull waited.
  if (waiter->status.ok() && !(*waiter->may_act_)()) waiter->status = MayNotAct();
  waiter->OnPulled();
}

void ParameterShard::ContinueAll(ServedSlices* served, const Waiters& waiters) {
  for (PullWaiter* waiter : waiters) {
    ++waiter->part_;
    waiter->first_waiting_ = 0;
    Continue(served, waiter);
  }
}

void ParameterShard::TakeEvents(ServedSlices* served, ShardPart* part, Waiters* complete) {
  part->mutex.AssertHeld();
  part->TakeEvents(complete);
  if (!part->events.empty()) PassEventsOn(served, &part->events);
}

void ParameterShard::PassEventsOn(ServedSlices* served, SliceStoreEvents* events) {
  MutexLock lock(&events_mutex_);
  for (SliceStoreEvents::CutPart& cut : events->cuts) {
    if (!cut.completes_cut || served->parts.size() == 1) continue;
    cut.completes_cut = ++served->completed_cuts[cut.cut] == served->parts.size();
    if (cut.completes_cut) served->completed_cuts.erase(cut.cut);
  }
  observer_->OnEvents(events);
}

std::vector<TableUse> ParameterShard::TablesInUse() const {
  std::shared_ptr<ServedSlices> served;
  {
    MutexLock lock(&mutex_);
    served = served_;
  }
  return served == nullptr ? std::vector<TableUse>() : served->store->TablesInUse();
}

void ParameterShard::Drain() {
  std::shared_ptr<ServedSlices> served;
  {
    MutexLock lock(&mutex_);
    phase_ = Phase::kDraining;
    served = std::move(served_);
  }
  EndServed(Stopping(), served.get());
  MutexLock lock(&timer_mutex_);
  draining_ = true;
  timer_changed_.NotifyAll();
}

absl::Time ParameterShard::Tick() {
  std::shared_ptr<ServedSlices> served;
  {
    MutexLock lock(&mutex_);
    served = served_;
  }
  absl::Time next = absl::InfiniteFuture();
  if (served == nullptr) return next;
  for (const auto& part : served->parts) {
    Waiters late;
    {
      MutexLock lock(&part->mutex);
      next = std::min(next, part->CollectLate(clock_->Now(), &late));
    }
    ContinueAll(served.get(), late);
  }
  return next;
}

void ParameterShard::NoteGiveUp(absl::Time give_up) {
  MutexLock lock(&timer_mutex_);
  if (give_up >= awake_at_) return;
  timer_due_ = true;
  timer_changed_.NotifyAll();
}

void ParameterShard::RunTimer() {
  while (true) {
    {
      MutexLock lock(&timer_mutex_);
      if (draining_) return;
      timer_due_ = false;
      awake_at_ = absl::InfiniteFuture();
    }
    const absl::Time next = Tick();
    MutexLock lock(&timer_mutex_);
    awake_at_ = next;
    while (!timer_due_ && !draining_ && clock_->WaitUntil(next, &timer_mutex_, &timer_changed_)) {
    }
  }
}

}  // namespace shoal
