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

#include "proto/v1/chief_service.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/variable_store.h"

namespace shoal {

// The part of the run's state that a worker needs in ASYNC.
struct AsyncView {
  uint64_t number = 0;  // the number of the run's state, which rises with every change
  uint64_t lineage = 0;
  bool training = false;                  // PHASE_TRAINING; otherwise the worker starts nothing
  std::vector<uint64_t> ps_incarnations;  // indexed by ps
};

// The worker's next action. The executor passes the ticket along with all results of the action.
struct AsyncAction {
  enum Kind {
    kWait,  // wait until an On... call changes something, or until `wake`
    // Start the call lease_call() to the chief and continue; when it ends call OnLeaseAnswer or
    // OnLeaseFailed.
    kLease,
    kPull,  // start an exchange for each of `groups` that pulls into `parameter_set`
    // Evaluate `block` of the test split with `parameter_set`, report the result to the chief for
    // `version`, then call OnEvaluated.
    kEvaluate,
    // Compute `batch` with `parameter_set`. When the gradients of a versioned group are final and
    // finite, start an exchange: push the slices that WantsPush names, together with
    // PulledVersions, and pull the group into `next_parameter_set`. Call OnNotPushed instead if the
    // gradients are not finite. If the loss is not finite, push nothing.
    kCompute,
    // Report to the chief that `batch` is not finite, repeat until it acknowledges, then call
    // OnReported.
    kReportBad,
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

// Decides, in ASYNC, which batch a worker computes next and what it pushes, pulls, evaluates and
// reports.
//
// The worker computes one leased batch after the other with the newest values, and pushes each
// group and pulls its newest value in the same exchange. Slices that answer STALE get the batch
// again, computed from the values in that answer. After three refusals the worker reports the batch
// to the chief, which then leases no new batches to any worker until this one is finished. A batch
// is finished when every slice that wanted it has it. The worker reports finished batches and asks
// for new ones while it computes its last one. The chief's answer lists all batches that the worker
// holds; the worker drops every other (the chief has skipped it or given it to another worker).
// After the restart of a ps the worker pulls its slices again, and the chief leases again the
// batches that this ps has lost. Two sets of parameters alternate, so that pulled values never
// change during a computation.
//
// Not thread-safe. It has no clock and no threads. Call Next again when an action has been executed
// (kLease, kPull: started) until it returns kWait, and after every On... call.
class AsyncStepLogic {
 public:
  struct Options {
    std::vector<ExchangeGroup> groups;  // VariableStore::groups()
    uint32_t max_held = 1024;           // the most batches to hold
    // The number of finished batches after which a report is sent at once.
    uint32_t report_batches = 64;
    absl::Duration report_interval = absl::Seconds(1);
    // The wait before asking again after the first answer without work; it doubles with each
    // further one, up to `ask_again`. It begins short, because at the end of an epoch the other
    // workers need at most the time of one batch until there is work again.
    absl::Duration first_ask_again = absl::Milliseconds(1);
    // The longest wait, also used after a failed call and after an answer with work.
    absl::Duration ask_again = absl::Milliseconds(20);
  };

  AsyncStepLogic(Options options, const StepPlan& plan);

  AsyncAction Next(absl::Time now);

  // kLease: the call to make, to which the caller adds the identity. It stays the same until it is
  // answered.
  const v1::LeaseBatchesRequest& lease_call() const { return call_; }
  // kCompute: flags of the group's slices that take the batch. PulledVersions returns the versions
  // of the values that the batch is computed from. Both are indexed by slice in the group and do
  // not change until the ticket's last exchange is done.
  absl::Span<const uint8_t> WantsPush(uint32_t group) const { return groups_[group].wants; }
  bool WantsAnyPush(uint32_t group) const;
  absl::Span<const uint64_t> PulledVersions(uint32_t group) const {
    return groups_[group].pulled_versions;
  }

  // The run's state changed; older states are ignored. Call VariableStore::SetView first.
  void OnView(const AsyncView& view);
  void OnLeaseAnswer(absl::Time now, uint64_t number, const v1::LeaseBatchesResponse& answer);
  // The call's outcome is unknown: Next returns the same call again.
  void OnLeaseFailed(absl::Time now, uint64_t number);
  // The exchange that was started with this ticket for one group is done.
  void OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result);
  // kCompute: the group's gradients (or the loss) are not finite, so it was neither pushed nor
  // pulled.
  void OnNotPushed(uint64_t ticket, uint32_t group);
  // kCompute, kEvaluate: nothing was computed, pushed or pulled, because rows of tables could not
  // be pulled. The worker drops the batch and calls the chief, which leases it again.
  void OnNoRows(uint64_t ticket);
  void OnEvaluated(uint64_t ticket);
  void OnReported(uint64_t ticket);

  // Returns the batch that is being computed, for heartbeats.
  std::optional<BatchKey> current_batch() const;
  // The batch after the current one, unless the leases change; its examples can be read ahead.
  std::optional<BatchKey> next_batch() const {
    if (queue_.empty()) return std::nullopt;
    return ToBatchKey(queue_.front().batch());
  }
  uint64_t num_finished() const { return num_finished_; }
  std::string Activity() const;

 private:
  static constexpr uint32_t kRefusalsBeforeNotice = 3;

  // One group: its values in the two sets of parameters, and the slices that need the current
  // batch.
  struct Group {
    std::array<bool, 2> is_valid{};                 // indexed by set
    std::array<std::vector<uint64_t>, 2> versions;  // indexed by set and slice
    bool is_void = false;        // the ps changed: values from the exchange under way are not valid
    std::vector<uint8_t> owed;   // slices that lack the current batch
    std::vector<uint8_t> wants;  // slices that the exchange under way pushes
    std::vector<uint64_t> pulled_versions;  // used by the exchange under way
  };
  struct CurrentBatch {
    BatchKey batch;
    uint32_t refusals = 0;
    bool is_dropped = false;   // the chief has taken the batch away
    bool is_bad = false;       // not finite
    bool is_withheld = false;  // a ps withholds it: the chief decides whether it is skipped
  };
  // The action under way, except for a call to the chief.
  struct Round {
    AsyncAction::Kind kind = AsyncAction::kWait;
    uint64_t ticket = 0;
    uint32_t target_set = 0;
    uint32_t groups_left = 0;
    bool was_refused = false;
    v1::LeaseBatchesResponse::Evaluation block;
  };

  bool is_busy() const { return round_.kind != AsyncAction::kWait; }
  bool MustCall(absl::Time now) const;
  void StartCall(absl::Time now, AsyncAction* action);
  bool NextPull(AsyncAction* action);
  bool NextEvaluation(AsyncAction* action);
  bool NextBatch(AsyncAction* action);
  void Begin(AsyncAction::Kind kind, uint32_t target_set, uint32_t num_groups, AsyncAction* action);
  void StartBatch(const v1::LeaseBatchesResponse::Lease& lease);
  void TakeOutcomes(Group* group, const ExchangeResult& result);
  void EndGroup();
  void EndBatchRound();
  void DropBatch();
  void Invalidate(Group* group);

  const Options options_;
  const StepPlan plan_;
  uint32_t num_versioned_ = 0;

  AsyncView view_;
  std::vector<Group> groups_;
  std::vector<uint32_t> listed_;  // the groups of the last kPull
  uint32_t set_ = 0;              // the set with the values of the next computation
  bool is_fresh_ = false;         // training was not paused since they were pulled
  uint64_t last_ticket_ = 0;
  Round round_;

  std::deque<v1::LeaseBatchesResponse::Lease> queue_;
  std::optional<CurrentBatch> current_;
  std::vector<BatchKey> finished_;  // since the last call
  std::deque<v1::LeaseBatchesResponse::Evaluation> blocks_;
  uint64_t evaluated_version_ = 0;     // the version of the blocks below
  std::set<uint64_t> evaluated_;       // acknowledged by the chief
  bool values_at_evaluation_ = false;  // set_ was pulled for evaluated_version_

  v1::LeaseBatchesRequest call_;
  bool is_calling_ = false;
  bool must_repeat_ = false;
  bool must_ask_ = false;  // something has to be reported to the chief or decided by it
  absl::Time last_call_ = absl::InfinitePast();
  absl::Time next_ask_ = absl::InfinitePast();
  absl::Duration idle_wait_ = absl::ZeroDuration();  // zero: the last answer contained work

  uint64_t num_finished_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ASYNC_STEP_LOGIC_H_
