// The state of one ps task behind a mutex: its slices, who may change them, and the pulls that wait
// for a version.
#ifndef SHOAL_PS_PARAMETER_SHARD_H_
#define SHOAL_PS_PARAMETER_SHARD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/variables/slice_store.h"

namespace shoal {
namespace v1 {
class Identity;
}

// Takes what happens to the slices. Called with the shard's lock held, in order: take notes,
// nothing else.
class ShardObserver {
 public:
  virtual ~ShardObserver() = default;
  // A lineage starts: what was said about others is over.
  virtual void OnLineage(uint64_t lineage) = 0;
  virtual void OnEvents(SliceStoreEvents* events) = 0;
};

// The pulls of one call, or its question for room. Lists may be filled anew and used again after
// OnPulled.
class PullWaiter {
 public:
  virtual ~PullWaiter() = default;

  std::vector<uint32_t> slices;  // Owned by the shard.
  uint64_t version = 0;          // SYNC.
  bool versions_only = false;    // Answers carry no values; never waits.
  absl::Duration park;           // How long to wait for the version, or for room. SYNC.
  std::vector<SlicePush> asks;   // AskForRoom: contributions, without `data`.

  // Called exactly once, without locks, perhaps inside Pull: `status` is OK and the rest is filled,
  // or ABORTED "moved" or UNAVAILABLE.
  virtual void OnPulled() = 0;
  absl::Status status;
  uint64_t lineage = 0;
  std::vector<PullAnswer> answers;          // One for each of `slices`.
  std::vector<uint32_t> missing_positions;  // Of the first slice that is not there, or has no room.
  bool has_room = false;                    // AskForRoom.

 private:
  friend class ParameterShard;
  size_t first_waiting_ = 0;  // The slices before this are there.
  absl::Time give_up_;
};

// BLANK -> (loading) -> SERVING -> DRAINING. Thread-safe, and without threads: pulls whose time is
// over end inside Tick, which whoever owns the shard calls, or has RunTimer call.
class ParameterShard {
 public:
  // Both must outlive the shard.
  ParameterShard(const Clock* clock, ShardObserver* observer);
  // The same as Drain.
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // Before this everything is UNAVAILABLE. `may_act`: whether the task's lease holds; asked before
  // every push.
  void SetRules(const ReceiverRules& rules, std::function<bool()> may_act);

  // For a command of the chief that is about no lineage.
  absl::Status CheckCommand(const v1::Identity& sender);

  // Makes room for another lineage: waiting pulls end with "moved", the old slices are freed.
  // False: the lineage is served already. UNAVAILABLE: another load is under way. Follow with
  // EndLoad.
  absl::StatusOr<bool> BeginLoad(const v1::Identity& sender);
  // Serves `store` under its lineage; null after a failure: blank again.
  void EndLoad(std::unique_ptr<SliceStore> store);

  // Runs `command` on the slices of the sender's lineage, with the lock held.
  absl::Status Command(const v1::Identity& sender, const std::function<void(SliceStore*)>& command);
  // The same, for what this task itself does about `lineage`. ABORTED if it is over.
  absl::Status CommandOfOwn(uint64_t lineage, const std::function<void(SliceStore*)>& command);

  // What a bulk call may do until a load: pushes and pulls want it back.
  struct Access {
    uint64_t generation = 0;
    uint64_t lineage = 0;
    std::shared_ptr<const SliceTable> table;
  };
  absl::StatusOr<Access> Enter(const v1::Identity& sender, uint64_t receiver_incarnation);
  // INVALID_ARGUMENT, naming the slice, unless all are slices of this shard; otherwise as Push.
  absl::Status CheckOwnsAll(const Access& access, absl::Span<const uint32_t> slices);
  // INVALID_ARGUMENT if the plan has another number of examples in the batch; otherwise as Push.
  absl::Status CheckExamples(const Access& access, const BatchKey& batch, uint32_t examples);
  // ABORTED "moved" when there was a load; UNAVAILABLE: this ps may not act now.
  absl::StatusOr<PushOutcome> Push(const Access& access, const SlicePush& push);

  // Answers at once or when the version is there, whichever the waiter allows.
  void Pull(const Access& access, PullWaiter* waiter);

  // The same for room: answers when every one of `asks` would get another outcome than kBusy.
  void AskForRoom(const Access& access, PullWaiter* waiter);
  // The positions that the slice's next step lacks.
  void AppendMissingPositions(const Access& access, uint32_t slice,
                              std::vector<uint32_t>* positions);

  // Answers the pulls whose time is over by the shard's clock. Returns when to call it again,
  // unless a pull that comes later has less time.
  absl::Time Tick();
  // Calls Tick whenever it is due, until Drain: the work of one thread.
  void RunTimer();

  // Ends waiting pulls with UNAVAILABLE, and refuses everything from here on. Idempotent.
  void Drain();

  const Clock* clock() const { return clock_; }

 private:
  using Waiters = std::vector<PullWaiter*>;
  enum class Phase { kBlank, kLoading, kServing, kDraining };

  absl::Status CheckServing(uint64_t generation) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Hands on the store's events and collects the pulls that became complete.
  void TakeEvents(Waiters* complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsComplete(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wait(const Access& access, bool may_wait, PullWaiter* waiter);
  // Takes out of waiting_ who is through.
  void CollectComplete(Waiters* complete) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FindRoom(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answer(PullWaiter* waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWaiting(const absl::Status& status, Waiters* ended) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Tell(const Waiters& waiters);
  absl::Time NextGiveUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  ShardObserver* const observer_;

  Mutex mutex_;
  CondVar changed_;  // For RunTimer.
  // When RunTimer looks again by itself.
  absl::Time awake_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kBlank;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // Counts loads.
  uint64_t loading_lineage_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ReceiverRules> rules_ ABSL_GUARDED_BY(mutex_);
  std::function<bool()> may_act_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<SliceStore> store_ ABSL_GUARDED_BY(mutex_);
  SliceStoreEvents events_ ABSL_GUARDED_BY(mutex_);
  Waiters waiting_ ABSL_GUARDED_BY(mutex_);
  size_t num_asking_ ABSL_GUARDED_BY(mutex_) = 0;  // How many of them ask for room.
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SHARD_H_
