// The state of one ps task: its slices, the rules about who may change them, and the pulls that
// wait for a version.
#ifndef SHOAL_PS_PARAMETER_SHARD_H_
#define SHOAL_PS_PARAMETER_SHARD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ps/pull_waiter.h"
#include "ps/shard_part.h"
#include "ps/shard_strand.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/tables/table_use.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_store.h"

namespace shoal {
namespace v1 {
class Identity;
}

// Receives the events of the slices. It is called in order, by one thread at a time, with locks of
// the shard held, so it must only record the events.
class ShardObserver {
 public:
  virtual ~ShardObserver() = default;
  // A lineage starts: earlier events are obsolete.
  virtual void OnLineage(uint64_t lineage) = 0;
  // The parts of a cut may come in several calls; the last slice's part completes the cut.
  virtual void OnEvents(SliceStoreEvents* events) = 0;
};

// The phases are BLANK -> LOADING -> SERVING -> DRAINING. The slices are divided into parts (see
// PartitionedStore), each with its own lock, so that several threads use them at the same time;
// commands take all the locks. Thread-safe. It has no threads of its own: pulls that have waited
// for too long end inside Tick, which the owner calls, or lets one thread call through RunTimer.
class ParameterShard {
 public:
  // Both must outlive the shard.
  ParameterShard(const Clock* clock, ShardObserver* observer);
  // Drains.
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // Every call is UNAVAILABLE until this is called. `may_act` returns whether the task's lease is
  // valid; any thread calls it before every push.
  void SetRules(const ReceiverRules& rules, std::function<bool()> may_act);

  // Accepts exchanges from these incarnations of workers, which the chief has issued; keyed by
  // worker index.
  void LearnWorkers(const std::map<uint32_t, uint64_t>& incarnations);

  // Checks the sender of a command of the chief that concerns no lineage.
  absl::Status CheckCommand(const v1::Identity& sender);

  // Prepares for another lineage: waiting pulls end with "moved" and the old slices are freed. The
  // caller then calls EndLoad. Returns false if the lineage is served already, UNAVAILABLE if
  // another load is under way.
  absl::StatusOr<bool> BeginLoad(const v1::Identity& sender);
  // Serves `store` under its lineage. Null, after a failed load, returns the shard to BLANK.
  void EndLoad(std::unique_ptr<PartitionedStore> store);
  void EndLoad(std::unique_ptr<SliceStore> store);

  // Runs `command` on the slices of the sender's lineage, with all locks held.
  absl::Status Command(const v1::Identity& sender,
                       const std::function<void(PartitionedStore*)>& command);
  // The same for an operation that this ps itself starts. Returns ABORTED if `lineage` is no longer
  // served.
  absl::Status CommandOfOwn(uint64_t lineage,
                            const std::function<void(PartitionedStore*)>& command);

  // A bulk call's permission to push and pull, which ends with the next load.
  struct Access {
    uint64_t lineage = 0;
    const SliceTable* table = nullptr;
    std::shared_ptr<ServedSlices> served;
    std::shared_ptr<const std::function<bool()>> may_act;
  };
  absl::StatusOr<Access> Enter(const v1::Identity& sender, uint64_t receiver_incarnation);
  // Returns INVALID_ARGUMENT, naming the slice, if one of them is not in this shard.
  absl::Status CheckOwnsAll(const Access& access, absl::Span<const uint32_t> slices) const;
  // Returns INVALID_ARGUMENT if the batch has another number of examples in the step plan.
  absl::Status CheckExamples(const Access& access, const BatchKey& batch, uint32_t examples) const;
  // Runs the job on the strand of the part that has these slices of this shard, or at once on this
  // thread if they are in several parts.
  void RunJob(const Access& access, absl::Span<const uint32_t> slices, ShardStrand::Job* job) const;
  // Returns ABORTED ("moved") after another load, UNAVAILABLE while this ps has no valid lease.
  absl::StatusOr<PushOutcome> Push(const Access& access, const SlicePush& push);

  // Answers at once, or waits for the version as long as the waiter allows.
  void Pull(const Access& access, PullWaiter* waiter);
  // Waits for room: answers when none of `asks` would get the outcome kBusy.
  void AskForRoom(const Access& access, PullWaiter* waiter);
  // Appends the positions that the slice's next step lacks.
  void AppendMissingPositions(const Access& access, uint32_t slice,
                              std::vector<uint32_t>* positions);

  // Answers the pulls that have waited for as long as they may. Returns when to call it again; a
  // pull that arrives later may be due earlier.
  absl::Time Tick();
  // Calls Tick whenever it is due and returns after Drain. One thread runs it.
  void RunTimer();

  // Returns the use of the tables that have buckets here; nothing while no lineage is served. Waits
  // for no lock that is held while slices change or are copied.
  std::vector<TableUse> TablesInUse() const;

  // Ends waiting pulls with UNAVAILABLE and refuses every later call. Idempotent.
  void Drain();

  const Clock* clock() const { return clock_; }

 private:
  using Waiters = ShardPart::Waiters;
  enum class Phase { kBlank, kLoading, kServing, kDraining };

  absl::Status CheckServing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RunCommand(ServedSlices* served,
                          const std::function<void(PartitionedStore*)>& command);
  // Ends all waits for these slices and forbids changes of them. Does nothing if `served` is null.
  static void EndServed(const absl::Status& status, ServedSlices* served);
  // Passes the events of a part to the observer and collects the pulls that became complete.
  void TakeEvents(ServedSlices* served, ShardPart* part, Waiters* complete);
  void PassEventsOn(ServedSlices* served, SliceStoreEvents* events);

  void Wait(const Access& access, bool may_wait, PullWaiter* waiter);
  // Answers or parks the waiter part by part, starting at waiter->part_; calls OnPulled at the end.
  void Continue(ServedSlices* served, PullWaiter* waiter);
  // Continues waiters that have been answered in the part in which they waited.
  void ContinueAll(ServedSlices* served, const Waiters& waiters);
  void NoteGiveUp(absl::Time give_up);

  const Clock* const clock_;
  ShardObserver* const observer_;

  // Locks are taken in this order: mutex_, parts by index, events_mutex_ or timer_mutex_.
  mutable Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kBlank;
  uint64_t loading_lineage_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ReceiverRules> rules_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::function<bool()>> may_act_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ServedSlices> served_ ABSL_GUARDED_BY(mutex_);

  Mutex events_mutex_;  // Serializes calls of the observer.

  Mutex timer_mutex_;
  CondVar timer_changed_;
  bool timer_due_ ABSL_GUARDED_BY(timer_mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(timer_mutex_) = false;
  // The time at which RunTimer calls Tick next.
  absl::Time awake_at_ ABSL_GUARDED_BY(timer_mutex_) = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SHARD_H_
