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

bool ShardStrand::Append(Job* job) {
  MutexLock lock(&mutex_);
  while (running_ && num_waiting_ >= kMaxWaiting) has_room_.Wait(&mutex_);
  if (!running_) {
    running_ = true;
    return false;
  }
  job->next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = job;
  last_ = job;
  ++num_waiting_;
  return true;
}

ShardStrand::Job* ShardStrand::Next() {
  MutexLock lock(&mutex_);
  Job* job = first_;
  if (job == nullptr) {
    running_ = false;
  } else {
    first_ = job->next_;
    --num_waiting_;
  }
  has_room_.NotifyOne();
  return job;
}

void ShardStrand::Run(Job* job) {
  bool is_free = false;
  {
    MutexLock lock(&mutex_);
    is_free = !std::exchange(running_, true);
  }
  if (!is_free) {
    job->Keep();
    if (Append(job)) return;
  }
  for (; job != nullptr; job = Next()) job->Run();
}

// A part of the slices, and the pulls that wait for them.
struct ParameterShard::Part {
  Part(size_t index, PartitionedStore* all) : index(index), all(all), store(&all->part(index)) {}

  bool Has(uint32_t slice) const { return all->PartOf(slice) == index; }
  bool Concerns(const PullWaiter& waiter) const;
  bool IsComplete(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  bool FindRoom(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Answer(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void AddWaiting(PullWaiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Answer who is through, or too late, and take them out of `waiting`.
  void CollectComplete(Waiters* complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Time CollectLate(absl::Time now, Waiters* late) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const size_t index;
  const PartitionedStore* const all;
  ShardStrand strand;

  Mutex mutex;
  SliceStore* const store;
  absl::Status over ABSL_GUARDED_BY(mutex);  // Not OK: nothing is done here any more.
  SliceStoreEvents events ABSL_GUARDED_BY(mutex);
  Waiters waiting ABSL_GUARDED_BY(mutex);
  size_t num_asking ABSL_GUARDED_BY(mutex) = 0;  // How many of them ask for room.
};

// The slices of a lineage.
struct ParameterShard::Served {
  Served(uint64_t lineage, std::unique_ptr<PartitionedStore> slices)
      : lineage(lineage), store(std::move(slices)) {
    for (size_t i = 0; i < store->num_parts(); ++i) {
      parts.push_back(std::make_unique<Part>(i, store.get()));
    }
  }
  Part* PartOf(uint32_t slice) const { return parts[store->PartOf(slice)].get(); }
  void LockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& part : parts) part->mutex.Lock();
  }
  void UnlockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& part : parts) part->mutex.Unlock();
  }

  const uint64_t lineage;
  const std::unique_ptr<PartitionedStore> store;
  std::vector<std::unique_ptr<Part>> parts;
  // Guarded by the shard's events_mutex_. Cuts that some parts have completed, and the number of
  // these parts.
  std::map<uint64_t, size_t> completed_cuts;
};

bool ParameterShard::Part::Concerns(const PullWaiter& waiter) const {
  for (const uint32_t slice : waiter.slices) {
    if (Has(slice)) return true;
  }
  for (const SlicePush& ask : waiter.asks) {
    if (Has(ask.slice)) return true;
  }
  return false;
}

bool ParameterShard::Part::IsComplete(PullWaiter* waiter) const {
  if (!waiter->asks.empty()) return FindRoom(waiter);
  size_t& first = waiter->first_waiting_;
  for (; first < waiter->slices.size(); ++first) {
    const uint32_t slice = waiter->slices[first];
    if (Has(slice) && store->TryPull(slice, waiter->version).state == PullAnswer::kNotYet) break;
  }
  return first == waiter->slices.size();
}

bool ParameterShard::Part::FindRoom(PullWaiter* waiter) const {
  size_t& first = waiter->first_waiting_;
  for (; first < waiter->asks.size(); ++first) {
    const SlicePush& ask = waiter->asks[first];
    if (Has(ask.slice) && !store->MakeRoom(ask)) break;
  }
  return first == waiter->asks.size();
}

void ParameterShard::Part::Answer(PullWaiter* waiter) const {
  if (!waiter->asks.empty()) {
    if (FindRoom(waiter)) return;
    if (waiter->has_room) {
      store->AppendMissingPositions(waiter->asks[waiter->first_waiting_].slice,
                                    &waiter->missing_positions);
    }
    waiter->has_room = false;
    return;
  }
  for (size_t i = 0; i < waiter->slices.size(); ++i) {
    const uint32_t slice = waiter->slices[i];
    if (!Has(slice)) continue;
    PullAnswer& answer = waiter->answers[i];
    if (waiter->versions_only) {
      answer.version = store->newest_version(slice);
      continue;
    }
    if (waiter->rows.empty()) {
      answer = store->TryPull(slice, waiter->version);
    } else {
      const RowPull& rows = waiter->rows[i];
      answer = store->ReadRows(slice, waiter->version, {rows.keys, rows.num_keys}, rows.values);
    }
    if (answer.state == PullAnswer::kNotYet && waiter->missing_positions.empty()) {
      store->AppendMissingPositions(slice, &waiter->missing_positions);
    }
  }
}

void ParameterShard::Part::AddWaiting(PullWaiter* waiter) {
  waiting.push_back(waiter);
  if (!waiter->asks.empty()) ++num_asking;
}

void ParameterShard::Part::CollectComplete(Waiters* complete) {
  if (num_asking > 0) {
    // Free room goes to the lowest positions.
    std::sort(waiting.begin(), waiting.end(), [](const PullWaiter* a, const PullWaiter* b) {
      if (a->asks.empty() || b->asks.empty()) return !a->asks.empty() && b->asks.empty();
      return a->asks[0].position < b->asks[0].position;
    });
  }
  size_t still = 0;
  for (PullWaiter* waiter : waiting) {
    if (!IsComplete(waiter)) {
      waiting[still++] = waiter;
      continue;
    }
    if (!waiter->asks.empty()) --num_asking;
    Answer(waiter);
    complete->push_back(waiter);
  }
  waiting.resize(still);
}

absl::Time ParameterShard::Part::CollectLate(absl::Time now, Waiters* late) {
  absl::Time next = absl::InfiniteFuture();
  size_t still = 0;
  for (PullWaiter* waiter : waiting) {
    if (waiter->give_up_ > now) {
      next = std::min(next, waiter->give_up_);
      waiting[still++] = waiter;
      continue;
    }
    if (!waiter->asks.empty()) --num_asking;
    Answer(waiter);
    waiter->give_up_ = absl::InfinitePast();  // It waits in no other part.
    late->push_back(waiter);
  }
  waiting.resize(still);
  return next;
}

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
  std::shared_ptr<Served> old;  // Freed without the lock.
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
  served_ = std::make_shared<Served>(loading_lineage_, std::move(store));
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
  std::shared_ptr<Served> served;
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
  std::shared_ptr<Served> served;
  {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckServing());
    if (rules_->lineage() != lineage) return Moved();
    served = served_;
  }
  return RunCommand(served.get(), command);
}

absl::Status ParameterShard::RunCommand(Served* served,
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

void ParameterShard::EndServed(const absl::Status& status, Served* served) {
  if (served == nullptr) return;
  for (const auto& part : served->parts) {
    Waiters ended;
    {
      MutexLock lock(&part->mutex);
      part->over = status;
      part->num_asking = 0;
      ended.swap(part->waiting);
    }
    for (PullWaiter* waiter : ended) {
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
  return absl::InvalidArgumentError(absl::StrCat("batch_examples is ", examples, ", but batch ",
                                                 batch.index, " of epoch ", batch.epoch, " has ",
                                                 plan.ExamplesIn(batch)));
}

void ParameterShard::RunJob(const Access& access, absl::Span<const uint32_t> slices,
                            ShardStrand::Job* job) const {
  // The job may end the access, and with it the slices.
  const std::shared_ptr<Served> served = access.served;
  Part* const part = slices.empty() ? nullptr : served->PartOf(slices[0]);
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
  Served* const served = access.served.get();
  if (!served->store->Owns(push.slice)) return PushOutcome::kAhead;
  Part* const part = served->PartOf(push.slice);
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
  Part* const part = access.served->PartOf(slice);
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
    const std::shared_ptr<Served> served = access.served;
    Continue(served.get(), waiter);
  } else {
    waiter->status = MayNotAct();
    waiter->OnPulled();
  }
}

void ParameterShard::Continue(Served* served, PullWaiter* waiter) {
  for (; waiter->part_ < served->parts.size(); ++waiter->part_, waiter->first_waiting_ = 0) {
    Part* const part = served->parts[waiter->part_].get();
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

void ParameterShard::ContinueAll(Served* served, const Waiters& waiters) {
  for (PullWaiter* waiter : waiters) {
    ++waiter->part_;
    waiter->first_waiting_ = 0;
    Continue(served, waiter);
  }
}

void ParameterShard::TakeEvents(Served* served, Part* part, Waiters* complete) {
  part->mutex.AssertHeld();
  part->store->TakeEvents(&part->events);
  // Room may have become free without an event.
  if (!part->waiting.empty() && (part->num_asking > 0 || !part->events.advances.empty())) {
    part->CollectComplete(complete);
  }
  if (!part->events.empty()) PassEventsOn(served, &part->events);
}

void ParameterShard::PassEventsOn(Served* served, SliceStoreEvents* events) {
  MutexLock lock(&events_mutex_);
  for (SliceStoreEvents::CutPart& cut : events->cuts) {
    if (!cut.completes_cut || served->parts.size() == 1) continue;
    cut.completes_cut = ++served->completed_cuts[cut.cut] == served->parts.size();
    if (cut.completes_cut) served->completed_cuts.erase(cut.cut);
  }
  observer_->OnEvents(events);
}

std::vector<TableUse> ParameterShard::TablesInUse() const {
  std::shared_ptr<Served> served;
  {
    MutexLock lock(&mutex_);
    served = served_;
  }
  return served == nullptr ? std::vector<TableUse>() : served->store->TablesInUse();
}

void ParameterShard::Drain() {
  std::shared_ptr<Served> served;
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
  std::shared_ptr<Served> served;
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
