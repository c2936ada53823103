#ifndef SHOAL_WORKER_ASYNC_STEP_LOGIC_H_
#define SHOAL_WORKER_ASYNC_STEP_LOGIC_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "runtime/cluster/batch_key.h"
#include "runtime/cluster/step_plan.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// What a worker has to know of the run's state, in ASYNC.
struct AsyncView {
  uint64_t number = 0;  // of the run's state: rises with every change
  uint64_t lineage = 0;
  bool training = false;                  // PHASE_TRAINING; otherwise nothing is begun
  std::vector<uint64_t> ps_incarnations;  // by ps index
};

// A call of ChiefService.LeaseBatches. A repetition of a call has the same content.
struct LeaseCall {
  uint64_t number = 0;
  std::vector<BatchKey> finished;
  std::vector<BatchKey> stale;
  uint32_t want = 0;
};

// Its answer: everything that the worker holds and has to evaluate.
struct LeaseAnswer {
  struct Lease {
    BatchKey batch;
    std::vector<uint32_t> ps;  // push to these only; empty: to all
  };
  struct Block {
    uint64_t version = 0;
    uint64_t block = 0;
  };
  std::vector<Lease> leases;
  std::vector<Block> evaluations;
};

// What the worker should do now. Whoever executes it hands the ticket back with everything that
// comes of it.
struct AsyncAction {
  enum Kind {
    kWait,       // until an On... call changed something, or until `wake`
    kLease,      // start the call lease_call() to the chief, go on; then OnLeaseAnswer or
                 // OnLeaseFailed
    kPull,       // start an exchange for each of `groups` that pulls into `parameter_set`
    kEvaluate,   // evaluate `block` of the test split with `parameter_set`, report it to the chief
                 // as of `version`, then OnEvaluated
    kCompute,    // compute `batch` with `parameter_set`. Each versioned group, as its gradients
                 // become final: if they are finite start an exchange that pushes the slices that
                 // WantsPush names, with PulledVersions, and pulls the group into
                 // `next_parameter_set`, else OnNotPushed. If the loss is not finite, push nothing.
    kReportBad,  // tell the chief that `batch` is not finite, until it acknowledges; then
                 // OnReported
  };
  Kind kind = kWait;
  uint64_t ticket = 0;
  uint64_t lineage = 0;  // for Exchange::lineage
  absl::Time wake = absl::InfiniteFuture();
  absl::Span<const uint32_t> groups;  // valid until the next call of Next
  uint32_t parameter_set = 0;         // 0 or 1
  uint32_t next_parameter_set = 0;
  BatchKey batch;
  uint32_t batch_examples = 0;
  uint64_t version = 0;
  uint64_t block = 0;
};

// Which batch a worker computes next, and what it pushes, pulls, evaluates and reports, in ASYNC.
//
// One batch after the other, as leased by the chief: compute it with the newest values, push each
// group and pull its newest value in the same exchange. Slices that answer STALE get the batch
// again, computed from the values that came with the answer; after three refusals the chief is
// told, which then lets the others come to rest. A batch is finished when every slice that wanted
// it has it. Finished batches are reported, and new ones asked for, while the last one in hand is
// computed. The answer always lists all that the worker holds: what is not in it is dropped (the
// chief skipped it or gave it to another).
// A ps that came back is pulled again; what it lacks the chief issues again.
// Two sets of parameters take turns, so that pulled values never change under a computation.
//
// One thread at a time, no clock, no threads inside. Call Next again when an action is executed
// (kLease, kPull: when it is started) until it says kWait, and after every On... call.
class AsyncStepLogic {
 public:
  struct Options {
    std::vector<ExchangeGroup> groups;  // VariableStore::groups()
    uint32_t max_held = 1024;           // batches
    uint32_t report_batches = 64;       // report at the latest when so many are finished
    absl::Duration report_interval = absl::Seconds(1);
    // When there was nothing to do, twice as long each time: at an epoch's end the others need no
    // longer than a batch.
    absl::Duration first_ask_again = absl::Milliseconds(1);
    absl::Duration ask_again = absl::Milliseconds(20);  // the most, and after a failed call
  };

  AsyncStepLogic(Options options, const StepPlan& plan);

  AsyncAction Next(absl::Time now);

  // kLease: what to say to the chief. Stays the same until it is answered.
  const LeaseCall& lease_call() const { return call_; }
  // kCompute: which slices of the group take the batch, and the versions of the values that it is
  // computed from, by slice in the group. Unchanged until the ticket's last exchange is done.
  absl::Span<const uint8_t> WantsPush(uint32_t group) const { return groups_[group].wants; }
  bool WantsAnyPush(uint32_t group) const;
  absl::Span<const uint64_t> PulledVersions(uint32_t group) const {
    return groups_[group].pulled_versions;
  }

  // The run's state changed; older states are ignored. Call VariableStore::SetView first.
  void OnView(const AsyncView& view);
  void OnLeaseAnswer(absl::Time now, uint64_t number, const LeaseAnswer& answer);
  // Outcome unknown: the same call is made again.
  void OnLeaseFailed(absl::Time now, uint64_t number);
  // The exchange that was started for one group under the ticket is done.
  void OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result);
  // kCompute: the group's gradients (or the loss) are not finite, it was neither pushed nor pulled.
  void OnNotPushed(uint64_t ticket, uint32_t group);
  void OnEvaluated(uint64_t ticket);
  void OnReported(uint64_t ticket);

  // For heartbeats.
  std::optional<BatchKey> batch_in_hand() const;
  // What comes after the batch in hand as things stand, to be read ahead.
  std::optional<BatchKey> next_batch() const {
    if (queue_.empty()) return std::nullopt;
    return queue_.front().batch;
  }
  uint64_t num_finished() const { return num_finished_; }
  uint64_t num_refused() const { return num_refused_; }
  std::string Activity() const;

 private:
  static constexpr uint32_t kRefusalsBeforeNotice = 3;

  // What the two sets of parameters hold of a group, and what the group wants of the batch in hand.
  struct Group {
    std::array<bool, 2> is_valid{};                 // by set
    std::array<std::vector<uint64_t>, 2> versions;  // by set, by slice
    bool is_void = false;        // the ps changed: what the exchange under way pulls is not valid
    std::vector<uint8_t> owed;   // slices that lack the batch in hand
    std::vector<uint8_t> wants;  // those of the exchange under way
    std::vector<uint64_t> pulled_versions;  // for the exchange under way
  };
  struct InHand {
    LeaseAnswer::Lease lease;
    uint32_t refusals = 0;
    bool is_dropped = false;  // the chief took it away
    bool is_bad = false;      // not finite
    bool is_withheld = false;
  };
  // What is under way besides a call to the chief.
  struct Round {
    AsyncAction::Kind kind = AsyncAction::kWait;
    uint64_t ticket = 0;
    uint32_t target_set = 0;
    uint32_t groups_left = 0;
    bool was_refused = false;
    LeaseAnswer::Block block;
  };

  bool is_busy() const { return round_.kind != AsyncAction::kWait; }
  bool MustCall(absl::Time now) const;
  void StartCall(absl::Time now, AsyncAction* action);
  bool NextPull(AsyncAction* action);
  bool NextEvaluation(AsyncAction* action);
  bool NextBatch(AsyncAction* action);
  void Begin(AsyncAction::Kind kind, uint32_t target_set, uint32_t num_groups, AsyncAction* action);
  void TakeInHand(LeaseAnswer::Lease lease);
  void TakeOutcomes(Group* group, const ExchangeResult& result);
  void EndGroup();
  void EndBatchRound();
  void DropInHand();
  void Invalidate(Group* group);

  const Options options_;
  const StepPlan plan_;
  uint32_t num_versioned_ = 0;

  AsyncView view_;
  std::vector<Group> groups_;
  std::vector<uint32_t> listed_;  // of the last kPull
  uint32_t set_ = 0;              // the set with the values of the next computation
  bool is_fresh_ = false;         // no pause since they were pulled
  uint64_t last_ticket_ = 0;
  Round round_;

  std::deque<LeaseAnswer::Lease> queue_;
  std::optional<InHand> in_hand_;
  std::vector<BatchKey> finished_;  // since the last call
  std::deque<LeaseAnswer::Block> blocks_;
  uint64_t evaluated_version_ = 0;     // of the blocks below
  std::set<uint64_t> evaluated_;       // acknowledged by the chief
  bool values_at_evaluation_ = false;  // set_ was pulled for evaluated_version_

  LeaseCall call_;
  bool is_calling_ = false;
  bool must_repeat_ = false;
  bool must_ask_ = false;  // something the chief has to hear or decide
  absl::Time last_call_ = absl::InfinitePast();
  absl::Time next_ask_ = absl::InfinitePast();
  absl::Duration idle_wait_ = absl::ZeroDuration();  // zero: the last answer had something to do

  uint64_t num_finished_ = 0;
  uint64_t num_refused_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ASYNC_STEP_LOGIC_H_
