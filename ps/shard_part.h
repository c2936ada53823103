#ifndef SHOAL_PS_SHARD_PART_H_
#define SHOAL_PS_SHARD_PART_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "ps/pull_waiter.h"
#include "ps/shard_strand.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_store.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {

// One part of the slices of a ParameterShard with its lock, and the pulls that wait for these
// slices. The class decides which waiting pulls are complete or late, and fills in their answers;
// ParameterShard calls OnPulled, without the lock. Methods that look at a waiter use only its
// slices in this part.
class ShardPart {
 public:
  using Waiters = std::vector<PullWaiter*>;

  // `all` is borrowed.
  ShardPart(size_t index, PartitionedStore* all)
      : index(index), store(&all->part(index)), all_(*all) {}
  ShardPart(const ShardPart&) = delete;
  ShardPart& operator=(const ShardPart&) = delete;

  bool Has(uint32_t slice) const { return all_.PartOf(slice) == index; }
  // Returns whether the waiter has to do with any slice of this part.
  bool Concerns(const PullWaiter& waiter) const;
  // Returns whether all slices have the version of the waiter, or room for what it asks.
  bool IsComplete(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Fills in the waiter's answer from the slices' present state.
  void Answer(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void AddWaiting(PullWaiter* waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Moves the events of the slices to `events`. Answers the waiting pulls that became complete, and
  // moves them to `complete`.
  void TakeEvents(Waiters* complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Answers the pulls that may not wait any longer, and moves them to `late`. Returns when the next
  // one is late.
  absl::Time CollectLate(absl::Time now, Waiters* late) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Refuses every later use of the part with `status`, and returns the pulls that waited.
  Waiters End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex);

  const size_t index;
  ShardStrand strand;  // Thread-safe by itself.

  Mutex mutex;
  SliceStore* const store;  // Used with the lock.
  // Not OK after End.
  absl::Status over ABSL_GUARDED_BY(mutex);
  SliceStoreEvents events ABSL_GUARDED_BY(mutex);

 private:
  // Makes room for what the waiter asks, as far as there is any. Returns whether all of it has
  // room.
  bool MakeRoom(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Prefetches what a look-up in the next slice of this part after waiter.slices[i] reads first.
  void PrefetchRowsAfter(const PullWaiter& waiter, size_t i) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void CollectComplete(Waiters* complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const PartitionedStore& all_;
  Waiters waiting_ ABSL_GUARDED_BY(mutex);
  size_t num_asking_ ABSL_GUARDED_BY(mutex) = 0;  // The number of those that ask for room.
};

// The slices that a ParameterShard serves under one lineage, as parts. Its members cannot change,
// except for the contents of the parts and `completed_cuts`.
struct ServedSlices {
  ServedSlices(uint64_t lineage, std::unique_ptr<PartitionedStore> slices);

  ShardPart* PartOf(uint32_t slice) const { return parts[store->PartOf(slice)].get(); }
  // Lock and unlock the mutexes of all parts.
  void LockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& part : parts) part->mutex.Lock();
  }
  void UnlockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const auto& part : parts) part->mutex.Unlock();
  }

  const uint64_t lineage;
  const std::unique_ptr<PartitionedStore> store;
  std::vector<std::unique_ptr<ShardPart>> parts;
  // The number of parts that have completed a cut which others have not, keyed by the cut's
  // version. Guarded by the lock with which ParameterShard passes events on.
  std::map<uint64_t, size_t> completed_cuts;
};

}  // namespace shoal

#endif  // SHOAL_PS_SHARD_PART_H_
