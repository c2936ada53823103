// The state of one ps task behind a mutex: its slices, who may change them, and the pulls that wait
// for a version.
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
#include "runtime/rpc/receiver_rules.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/slice_store.h"

namespace shoal {
namespace v1 {
class Identity;
}

// Takes what happens to the slices. Called in order, by one thread at a time, with locks of the
// shard held: take notes, nothing else.
class ShardObserver {
 public:
  virtual ~ShardObserver() = default;
  // A lineage starts: what was said about others is over.
  virtual void OnLineage(uint64_t lineage) = 0;
  // Of a cut, exactly one part completes it: the last one of all slices.
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
  size_t first_waiting_ = 0;  // The slices of the part before this are there.
  size_t part_ = 0;           // Where it waits or is answered.
  absl::Time give_up_;
  std::shared_ptr<const std::function<bool()>> may_act_;
};

// Jobs on one part of the slices, one after the other: whoever comes first works for those who come
// meanwhile. Thread-safe.
class ShardStrand {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    // Called once; may end the job's life.
    virtual void Run() = 0;
    // Another thread will call Run, later: what the caller of ShardStrand::Run only lends must be
    // copied.
    virtual void Keep() = 0;

   private:
    friend class ShardStrand;
    Job* next_ = nullptr;
  };

  // Runs `job`, here or, where another thread is at work, there. Blocks while many wait.
  void Run(Job* job);

 private:
  // What waits is not counted by the transports' bounds on memory.
  static constexpr int kMaxWaiting = 8;

  Job* Next();
  bool Append(Job* job);

  Mutex mutex_;
  CondVar has_room_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  Job* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Job* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

// BLANK -> (loading) -> SERVING -> DRAINING. The slices are in parts (see PartitionedStore), each
// with a lock of its own, so that several threads use them at the same time; commands hold all of
// them. Thread-safe, and without threads: pulls whose time is over end inside Tick, which whoever
// owns the shard calls, or has RunTimer call.
class ParameterShard {
 public:
  // Both must outlive the shard.
  ParameterShard(const Clock* clock, ShardObserver* observer);
  // The same as Drain.
  ~ParameterShard();
  ParameterShard(const ParameterShard&) = delete;
  ParameterShard& operator=(const ParameterShard&) = delete;

  // Before this everything is UNAVAILABLE. `may_act`: whether the task's lease holds; asked before
  // every push, by any thread.
  void SetRules(const ReceiverRules& rules, std::function<bool()> may_act);

  // The chief has issued these incarnations of workers, by index: exchanges are taken from them.
  void LearnWorkers(const std::map<uint32_t, uint64_t>& incarnations);

  // For a command of the chief that is about no lineage.
  absl::Status CheckCommand(const v1::Identity& sender);

  // Makes room for another lineage: waiting pulls end with "moved", the old slices are freed.
  // False: the lineage is served already. UNAVAILABLE: another load is under way. Follow with
  // EndLoad.
  absl::StatusOr<bool> BeginLoad(const v1::Identity& sender);
  // Serves `store` under its lineage; null after a failure: blank again.
  void EndLoad(std::unique_ptr<PartitionedStore> store);
  void EndLoad(std::unique_ptr<SliceStore> store);

  // Runs `command` on the slices of the sender's lineage, with all locks held.
  absl::Status Command(const v1::Identity& sender,
                       const std::function<void(PartitionedStore*)>& command);
  // The same, for what this task itself does about `lineage`. ABORTED if it is over.
  absl::Status CommandOfOwn(uint64_t lineage,
                            const std::function<void(PartitionedStore*)>& command);

 private:
  struct Part;
  struct Served;

 public:
  // What a bulk call may do until a load: pushes and pulls want it back.
  struct Access {
    uint64_t lineage = 0;
    const SliceTable* table = nullptr;
    std::shared_ptr<Served> served;
    std::shared_ptr<const std::function<bool()>> may_act;
  };
  absl::StatusOr<Access> Enter(const v1::Identity& sender, uint64_t receiver_incarnation);
  // INVALID_ARGUMENT, naming the slice, unless all are slices of this shard.
  absl::Status CheckOwnsAll(const Access& access, absl::Span<const uint32_t> slices) const;
  // INVALID_ARGUMENT if the plan has another number of examples in the batch.
  absl::Status CheckExamples(const Access& access, const BatchKey& batch, uint32_t examples) const;
  // Runs the job on the strand of the part that has these slices, which are this shard's; at once
  // if they are in several parts.
  void RunJob(const Access& access, absl::Span<const uint32_t> slices, ShardStrand::Job* job) const;
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

  absl::Status CheckServing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RunCommand(Served* served, const std::function<void(PartitionedStore*)>& command);
  // Nothing changes these slices from here on, and nobody waits for them. Null: nothing to do.
  static void EndServed(const absl::Status& status, Served* served);
  // Hands on the events of a part and collects the pulls that became complete.
  void TakeEvents(Served* served, Part* part, Waiters* complete);
  void PassEventsOn(Served* served, SliceStoreEvents* events);

  void Wait(const Access& access, bool may_wait, PullWaiter* waiter);
  // Goes through the parts from waiter->part_ on, waiting or answering; OnPulled in the end.
  void Continue(Served* served, PullWaiter* waiter);
  // They have been answered in the part where they waited.
  void ContinueAll(Served* served, const Waiters& waiters);
  void NoteGiveUp(absl::Time give_up);

  const Clock* const clock_;
  ShardObserver* const observer_;

  // Locks are taken in this order: mutex_, parts by index, events_mutex_ or timer_mutex_.
  Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kBlank;
  uint64_t loading_lineage_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<ReceiverRules> rules_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::function<bool()>> may_act_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Served> served_ ABSL_GUARDED_BY(mutex_);

  Mutex events_mutex_;  // One call of the observer at a time.

  Mutex timer_mutex_;
  CondVar timer_changed_;
  bool timer_due_ ABSL_GUARDED_BY(timer_mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(timer_mutex_) = false;
  // When RunTimer looks again by itself.
  absl::Time awake_at_ ABSL_GUARDED_BY(timer_mutex_) = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SHARD_H_
