#include "chief/ledgers/data_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/log.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxChunk = 1024;
constexpr uint64_t kChunksPerWorker = 10;

void InsertPs(uint32_t ps, std::vector<uint32_t>* list) {
  const auto at = std::lower_bound(list->begin(), list->end(), ps);
  if (at == list->end() || *at != ps) list->insert(at, ps);
}

}  // namespace

DataLedger::DataLedger(const Options& options, const StepPlan& plan)
    : options_(options), plan_(plan) {
  CHECK_EQ(plan.replicas_to_aggregate(), 1u) << "ASYNC applies one batch per update";
  updates_ = last_evaluated_ = plan.options().base_step;
  next_ = {plan.options().base_epoch, 0};
  epochs_[next_.epoch];
  SetPauses();
  Advance();
}

v1::LeaseBatchesResponse DataLedger::LeaseBatches(const v1::LeaseBatchesRequest& request,
                                                  bool may_lease) {
  v1::LeaseBatchesResponse late;
  late.set_epoch_ending(true);
  const uint32_t index = request.identity().member().index();
  Worker* worker = Admit(index, request.identity().incarnation(), request.number());
  if (worker == nullptr || request.number() < worker->last_number) return late;
  if (request.number() > worker->last_number) {
    worker->last_number = request.number();
    for (const v1::BatchId& batch : request.finished()) Finish(index, worker, ToBatchKey(batch));
    for (const v1::BatchId& batch : request.stale()) {
      const auto open = open_.find(ToBatchKey(batch));
      if (open != open_.end() && open->second.worker == index) open->second.stale = true;
    }
    Advance();
    const bool knows_all_ps = request.identity().view() >= least_view_;
    const bool knows_its_loss = request.number() > worker->returned_with;
    if (knows_its_loss && knows_all_ps) Grant(index, worker, may_lease ? request.want() : 0);
  }
  return AnswerFor(index, *worker);
}

DataLedger::Worker* DataLedger::Admit(uint32_t index, uint64_t incarnation, uint64_t number) {
  const auto known = workers_.find(index);
  if (known != workers_.end()) {
    if (incarnation < known->second.incarnation) return nullptr;
    if (incarnation == known->second.incarnation) return &known->second;
    OnWorkerLost(index, known->second.incarnation);
  }
  // A process that gets its place back may have finished batches of its former leases while a ps
  // was replaced that had acknowledged them; only the leases' own records knew that. It reports
  // them with the call after the one under way. So the call under way gets nothing to do, the
  // worker drops what it holds, and its later reports concern no lease.
  uint64_t returned_with = 0;
  const auto lost = lost_workers_.find(index);
  if (lost != lost_workers_.end()) {
    if (incarnation < lost->second.incarnation) return nullptr;
    if (incarnation == lost->second.incarnation) {
      if (number <= lost->second.last_number) return nullptr;  // Answered before.
      returned_with = number;
    }
    lost_workers_.erase(lost);
  }
  const uint64_t slowest = MinClock();
  Worker& worker = workers_[index];
  worker.incarnation = incarnation;
  worker.clock = slowest;
  worker.returned_with = returned_with;
  return &worker;
}

void DataLedger::OnWorkerLost(uint32_t worker, uint64_t incarnation) {
  const auto known = workers_.find(worker);
  if (known == workers_.end() || known->second.incarnation > incarnation) return;
  for (const BatchKey& batch : known->second.held) {
    Open& open = open_.at(batch);
    if (!open.ps.empty()) {
      for (uint32_t ps : open.again) InsertPs(ps, &open.ps);
    }
    open.again.clear();
    open.worker = kNoWorker;
    open.stale = false;
    queue_.insert(batch);
  }
  lost_workers_[worker] = {known->second.incarnation, known->second.last_number};
  workers_.erase(known);
  round_.Release(worker);
}

void DataLedger::Finish(uint32_t worker_index, Worker* worker, const BatchKey& batch) {
  const auto it = open_.find(batch);
  // Somebody else's by now, skipped, or never leased: who has it will report it.
  if (it == open_.end() || it->second.worker != worker_index) return;
  worker->held.erase(std::find(worker->held.begin(), worker->held.end(), batch));
  ++worker->clock;
  Open& open = it->second;
  if (!open.counted) {
    epochs_[batch.epoch].finished.Insert(batch.index);
    ++updates_;
    --num_pending_;
  }
  if (open.again.empty()) {
    open_.erase(it);
    return;
  }
  // Some pushes may have been acknowledged by the former life of a ps.
  Open again;
  again.counted = true;
  again.ps = std::move(open.again);
  open = std::move(again);
  queue_.insert(batch);
}

void DataLedger::Grant(uint32_t worker_index, Worker* worker, uint32_t want) {
  // While a batch is refused again and again, the others come to rest so that it gets through.
  if (HasStale()) return;
  const uint64_t chunk = ChunkSize();
  if (worker->held.size() > std::max<uint64_t>(1, chunk / 2)) return;
  uint64_t limit = std::min<uint64_t>(want, worker->held.size() + chunk);
  if (options_.clock_bound >= 0) {
    const uint64_t ahead = worker->clock - MinClock();
    const uint64_t allowed = static_cast<uint64_t>(options_.clock_bound) + 1;
    limit = std::min(limit, allowed - std::min(allowed, ahead));
  }
  while (worker->held.size() < limit && (!queue_.empty() || OpenNext())) {
    const BatchKey batch = *queue_.begin();
    queue_.erase(queue_.begin());
    open_.at(batch).worker = worker_index;
    worker->held.push_back(batch);
  }
}

bool DataLedger::OpenNext() {
  if (NewLeft() == 0) return false;
  open_[next_];
  queue_.insert(next_);
  ++num_pending_;
  ++next_.index;
  PassSkipped();
  return true;
}

// Advances to the next batch that may be leased, in the next epoch if necessary.
void DataLedger::PassSkipped() {
  for (;;) {
    if (next_.index == plan_.batches_per_epoch()) {
      next_ = {next_.epoch + 1, 0};
    } else if (epochs_[next_.epoch].skipped.Contains(next_.index)) {
      ++next_.index;
    } else {
      return;
    }
  }
}

v1::LeaseBatchesResponse DataLedger::AnswerFor(uint32_t worker_index, const Worker& worker) {
  v1::LeaseBatchesResponse answer;
  for (const BatchKey& batch : worker.held) {
    v1::LeaseBatchesResponse::Lease* lease = answer.add_leases();
    *lease->mutable_batch() = ToProto(batch);
    for (const uint32_t ps : open_.at(batch).ps) lease->add_ps(ps);
  }
  if (round_.is_active() && open_.empty() && lost_ps_.empty()) {
    for (uint64_t block : round_.Take(worker_index, workers_.size())) {
      v1::LeaseBatchesResponse::Evaluation* evaluation = answer.add_evaluations();
      evaluation->set_version(round_.version());
      evaluation->set_block(block);
    }
  }
  answer.set_epoch_ending(answer.leases().empty() && answer.evaluations().empty() && !done_);
  return answer;
}

uint64_t DataLedger::NewLeft() const {
  const uint32_t end_epoch = options_.num_epochs == 0 ? UINT32_MAX : options_.num_epochs;
  if (round_.is_active() || next_.epoch >= std::min(end_epoch, pause_epoch_)) return 0;
  const uint64_t end_updates = options_.max_steps == 0 ? UINT64_MAX : options_.max_steps;
  const uint64_t stop = std::min(end_updates, pause_updates_);
  const uint64_t taken = updates_ + num_pending_;
  return std::min(plan_.batches_per_epoch() - next_.index, stop - std::min(stop, taken));
}

uint64_t DataLedger::ChunkSize() const {
  const uint64_t workers = std::max<uint64_t>(options_.num_workers, workers_.size());
  const uint64_t left = queue_.size() + NewLeft();
  return std::clamp<uint64_t>(left / (kChunksPerWorker * std::max<uint64_t>(1, workers)), 1,
                              kMaxChunk);
}

uint64_t DataLedger::MinClock() const {
  uint64_t slowest = UINT64_MAX;
  for (const auto& [index, worker] : workers_) slowest = std::min(slowest, worker.clock);
  return workers_.empty() ? 0 : slowest;
}

std::optional<DataLedger::HeldUp> DataLedger::FindHeldUpWorker() const {
  if (options_.clock_bound < 0 || workers_.empty() || HasStale()) return std::nullopt;
  if (queue_.empty() && NewLeft() == 0) return std::nullopt;
  const auto [slowest, fastest] = std::minmax_element(
      workers_.begin(), workers_.end(),
      [](const auto& a, const auto& b) { return a.second.clock < b.second.clock; });
  const uint64_t ahead = fastest->second.clock - slowest->second.clock;
  if (ahead <= static_cast<uint64_t>(options_.clock_bound)) return std::nullopt;
  return HeldUp{fastest->first, slowest->first, ahead};
}

bool DataLedger::HasStale() const {
  return std::any_of(open_.begin(), open_.end(),
                     [](const auto& open) { return open.second.stale; });
}

bool DataLedger::is_at_end() const {
  return (options_.max_steps != 0 && updates_ >= options_.max_steps) ||
         (options_.num_epochs != 0 && next_.epoch >= options_.num_epochs);
}

// Sets the point at which leasing stops next for an evaluation: the current one, if the evaluation
// that is due here was not made.
void DataLedger::SetPauses() {
  if (options_.evaluation_blocks == 0) return;
  const bool is_due = updates_ + num_pending_ != last_evaluated_;
  if (options_.evaluate_every == 0) {
    pause_epoch_ = next_.index == 0 && is_due ? next_.epoch : next_.epoch + 1;
  } else {
    const uint64_t rest = updates_ % options_.evaluate_every;
    pause_updates_ = rest == 0 && is_due ? updates_ : updates_ - rest + options_.evaluate_every;
  }
}

void DataLedger::Advance() {
  if (done_ || round_.is_active() || NewLeft() > 0) return;
  if (!open_.empty() || !lost_ps_.empty()) return;  // not drained
  if (options_.evaluation_blocks > 0 && last_evaluated_ != updates_) {
    round_.Start(updates_, options_.evaluation_blocks);
  } else if (is_at_end()) {
    done_ = true;
  } else {
    SetPauses();
  }
}

bool DataLedger::FinishBlock(uint64_t version, uint64_t block) {
  if (!round_.Finish(version, block)) return false;
  if (!round_.is_active()) {
    last_evaluated_ = version;
    Advance();
  }
  return true;
}

bool DataLedger::Skip(const BatchKey& batch, absl::string_view reason) {
  const auto epoch = epochs_.find(batch.epoch);
  if (!plan_.Covers(batch) || epoch == epochs_.end()) return false;
  if (epoch->second.skipped.Contains(batch.index)) return false;
  const auto open = open_.find(batch);
  if (open != open_.end()) {
    if (open->second.worker != kNoWorker) {
      auto& held = workers_.at(static_cast<uint32_t>(open->second.worker)).held;
      held.erase(std::find(held.begin(), held.end(), batch));
    }
    if (!open->second.counted) --num_pending_;
    queue_.erase(batch);
    open_.erase(open);
  } else if (epoch->second.finished.Contains(batch.index)) {
    return false;  // every slice has it
  }
  // It may have been an update once, that a ps lost: the others keep it.
  epoch->second.finished.Remove(batch.index);
  epoch->second.skipped.Insert(batch.index);
  skipped_[batch] = std::string(reason);
  PassSkipped();
  Advance();
  return true;
}

bool DataLedger::ReportCrash(const BatchKey& batch, uint32_t worker, uint64_t incarnation) {
  if (open_.count(batch) == 0) return false;
  for (auto it = crashes_.begin(); it != crashes_.end();) {
    it = open_.count(it->first) == 0 ? crashes_.erase(it) : std::next(it);
  }
  auto& lives = crashes_[batch];
  lives.insert({worker, incarnation});
  return lives.size() >= 2 && Skip(batch, "two workers crashed on it");
}

void DataLedger::OnPsLost(uint32_t ps) {
  lost_ps_.insert(ps);
  done_ = false;
}

absl::Status DataLedger::OnPsReturned(uint32_t ps, absl::Span<const EpochBatches> applied,
                                      uint64_t view) {
  const IntervalSet nothing;
  const auto applied_in = [&](uint32_t epoch) -> const IntervalSet& {
    for (const EpochBatches& of_epoch : applied) {
      if (of_epoch.epoch == epoch) return of_epoch.batches;
    }
    return nothing;
  };
  for (const auto& [number, epoch] : epochs_) {
    const bool is_missing = !IntervalSet::Difference(epoch.finished, applied_in(number)).empty();
    if (is_missing && number < plan_.options().base_epoch) {
      return absl::FailedPreconditionError(absl::StrCat(
          "ps/", ps, " lacks batches of epoch ", uint64_t{number} + 1,
          ", which was trained with another batch_size: resume with the previous value; it may "
          "change only at the start of an epoch"));
    }
  }
  for (const auto& [number, epoch] : epochs_) {
    const IntervalSet missing = IntervalSet::Difference(epoch.finished, applied_in(number));
    for (const IntervalSet::Range& range : missing.ranges()) {
      for (uint64_t i = range.begin; i < range.end; ++i) Reissue({number, i}, ps);
    }
  }
  for (auto& [batch, open] : open_) {
    const bool may_lack = !open.counted && open.worker != kNoWorker;
    if (may_lack && !applied_in(batch.epoch).Contains(batch.index)) InsertPs(ps, &open.again);
  }
  lost_ps_.erase(ps);
  least_view_ = std::max(least_view_, view);
  Advance();
  return absl::OkStatus();
}

// Makes a finished batch open again, because the ps has lost it.
void DataLedger::Reissue(const BatchKey& batch, uint32_t ps) {
  done_ = false;
  Open& open = open_[batch];
  open.counted = true;
  if (open.worker != kNoWorker) {
    InsertPs(ps, &open.again);
  } else {
    InsertPs(ps, &open.ps);
    queue_.insert(batch);
  }
}

std::pair<uint32_t, uint32_t> DataLedger::EpochsToAsk() const {
  return {epochs_.begin()->first, epochs_.rbegin()->first};
}

uint32_t DataLedger::FirstOpenEpoch() const {
  uint32_t first = open_.empty() ? next_.epoch : std::min(next_.epoch, open_.begin()->first.epoch);
  // The batches that a lost ps lacks are not known yet.
  if (!lost_ps_.empty()) first = std::min(first, epochs_.begin()->first);
  return first;
}

void DataLedger::ForgetEpochsBefore(uint32_t epoch) {
  epochs_.erase(epochs_.begin(), epochs_.lower_bound(std::min(epoch, FirstOpenEpoch())));
}

uint64_t DataLedger::num_finished(uint32_t epoch) const {
  const auto it = epochs_.find(epoch);
  return it == epochs_.end() ? 0 : it->second.finished.Count();
}

}  // namespace shoal
