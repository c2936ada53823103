#include "ps/shard_part.h"

#include <algorithm>
#include <utility>

namespace shoal {

bool ShardPart::Concerns(const PullWaiter& waiter) const {
  for (const uint32_t slice : waiter.slices) {
    if (Has(slice)) return true;
  }
  for (const SlicePush& ask : waiter.asks) {
    if (Has(ask.slice)) return true;
  }
  return false;
}

bool ShardPart::IsComplete(PullWaiter* waiter) const {
  if (!waiter->asks.empty()) return MakeRoom(waiter);
  size_t& first = waiter->first_waiting_;
  for (; first < waiter->slices.size(); ++first) {
    const uint32_t slice = waiter->slices[first];
    if (Has(slice) && store->TryPull(slice, waiter->version).state == PullAnswer::kNotYet) break;
  }
  return first == waiter->slices.size();
}

bool ShardPart::MakeRoom(PullWaiter* waiter) const {
  size_t& first = waiter->first_waiting_;
  for (; first < waiter->asks.size(); ++first) {
    const SlicePush& ask = waiter->asks[first];
    if (Has(ask.slice) && !store->MakeRoom(ask)) break;
  }
  return first == waiter->asks.size();
}

void ShardPart::Answer(PullWaiter* waiter) const {
  if (!waiter->asks.empty()) {
    if (MakeRoom(waiter)) return;
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
      if (rows.num_keys > 0 && rows.values == nullptr &&
          store->TryPull(slice, waiter->version).state == PullAnswer::kValue) {
        waiter->AllocateRows();
      }
      PrefetchRowsAfter(*waiter, i);
      answer = store->ReadRows(slice, waiter->version, {rows.keys, rows.num_keys}, rows.values);
    }
    if (answer.state == PullAnswer::kNotYet && waiter->missing_positions.empty()) {
      store->AppendMissingPositions(slice, &waiter->missing_positions);
    }
  }
}

void ShardPart::PrefetchRowsAfter(const PullWaiter& waiter, size_t i) const {
  while (++i < waiter.slices.size()) {
    if (!Has(waiter.slices[i])) continue;
    store->PrefetchRows(waiter.slices[i], {waiter.rows[i].keys, waiter.rows[i].num_keys});
    return;
  }
}

void ShardPart::AddWaiting(PullWaiter* waiter) {
  waiting_.push_back(waiter);
  if (!waiter->asks.empty()) ++num_asking_;
}

void ShardPart::CollectComplete(Waiters* complete) {
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

absl::Time ShardPart::CollectLate(absl::Time now, Waiters* late) {
  absl::Time next = absl::InfiniteFuture();
  size_t still = 0;
  for (PullWaiter* waiter : waiting_) {
    if (waiter->give_up_ > now) {
      next = std::min(next, waiter->give_up_);
      waiting_[still++] = waiter;
      continue;
    }
    if (!waiter->asks.empty()) --num_asking_;
    Answer(waiter);
    waiter->give_up_ = absl::InfinitePast();  // It waits in no other part.
    late->push_back(waiter);
  }
  waiting_.resize(still);
  return next;
}

void ShardPart::TakeEvents(Waiters* complete) {
  store->TakeEvents(&events);
  // Room may have become free without an event.
  if (!waiting_.empty() && (num_asking_ > 0 || !events.advances.empty())) {
    CollectComplete(complete);
  }
}

ShardPart::Waiters ShardPart::End(const absl::Status& status) {
  MutexLock lock(&mutex);
  over = status;
  num_asking_ = 0;
  return std::exchange(waiting_, Waiters());
}

ServedSlices::ServedSlices(uint64_t lineage, std::unique_ptr<PartitionedStore> slices)
    : lineage(lineage), store(std::move(slices)) {
  for (size_t i = 0; i < store->num_parts(); ++i) {
    parts.push_back(std::make_unique<ShardPart>(i, store.get()));
  }
}

}  // namespace shoal
