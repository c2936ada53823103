#ifndef SHOAL_WORKER_SYNC_STEP_LOGIC_H_
#define SHOAL_WORKER_SYNC_STEP_LOGIC_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "runtime/plan/batch_key.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/variable_store.h"
#include "worker/step_help.h"

namespace shoal {

// The part of the run's state that a worker needs in SYNC.
struct SyncView {
  uint64_t number = 0;  // the number of the run's state, which rises with every change
  uint64_t lineage = 0;
  // PHASE_TRAINING; otherwise the worker computes, pulls and evaluates nothing.
  bool training = false;
  std::vector<uint32_t> workers;  // worker indices in rank order
  std::set<BatchKey> skipped;     // never computed again
  std::set<BatchKey> delivered;   // batches that all slices have
  uint64_t last_step = UINT64_MAX;
  VersionSchedule evaluations;  // versions at which the test split is evaluated; never version 0
};

// The worker's next action. The executor passes the ticket along with all results of the action.
struct SyncAction {
  enum Kind {
    kWait,           // wait until an On... call changes something, or until `wake`
    kQueryVersions,  // start a versions_only exchange for each of `groups`
    kPull,  // start an exchange for each of `groups` that pulls `version` into `parameter_set`,
            // parked
    // Evaluate `block` of the test split with `parameter_set` (which is at `version`), report the
    // result to the chief, then call OnEvaluated.
    kEvaluate,
    // Compute `batch` with `parameter_set` into `gradient_set`. For each versioned group whose
    // gradients become final: if they are finite, start an exchange that pushes it (and with
    // `pull_next` pulls version + 1 into `next_parameter_set`, parked); otherwise call OnNotPushed.
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
  uint64_t version = 0;               // the worker's step
  uint32_t parameter_set = 0;         // 0 or 1
  uint64_t block = 0;
  BatchKey batch;
  uint32_t position = 0;
  uint32_t batch_examples = 0;
  uint32_t gradient_set = 0;  // 0 or 1
  bool pull_next = false;
  uint32_t next_parameter_set = 0;
  absl::Duration park;  // kPull, and kCompute with `pull_next`: how long the pulls may be parked
};

// Decides, in SYNC, which batch a worker computes next and what it pushes, pulls, evaluates and
// reports.
//
// When the worker holds version s of all slices, it first evaluates its own blocks if s is
// evaluated. Then it computes each of its positions that is not skipped, delivered or pushed. The
// last push carries the parked pull of s+1; when every group holds s+1, the next step begins.
// Position p belongs to rank p mod N; StepHelp decides which positions of others the worker
// computes too. When the view changes during a step, the worker computes the positions that became
// its own. A new worker, one after a rollback, or one that has fallen behind asks all slices for
// their versions, takes the lowest as s and pulls it. Two sets of parameters and of gradients
// alternate: a set is reused only when no exchange uses it any more.
//
// Not thread-safe. It has no clock and no threads. Call Next again when an action has been executed
// (its exchanges may still be under way) until it returns kWait, and after every On... call. On...
// calls with tickets of an abandoned lineage must be made too: they free buffers.
class SyncStepLogic {
 public:
  struct Options {
    uint32_t worker = 0;                 // the task's index
    std::vector<bool> group_versioned;   // copied from VariableStore::groups()[i].versioned
    uint64_t num_evaluation_blocks = 0;  // fixed blocks of the test split
    // The wait before a withheld or reported batch is computed again.
    absl::Duration withheld_retry = absl::Milliseconds(200);
  };

  SyncStepLogic(Options options, const StepPlan& plan);

  SyncAction Next(absl::Time now);

  // The run's state changed; older states are ignored. Call VariableStore::SetView first.
  void OnView(const SyncView& view);
  // The exchange that was started with this ticket for one group is done.
  void OnExchange(absl::Time now, uint64_t ticket, uint32_t group, const ExchangeResult& result);
  // kCompute: the group's gradients are not finite, so it was not pushed.
  void OnNotPushed(absl::Time now, uint64_t ticket, uint32_t group);
  // kCompute, kEvaluate: nothing was computed or pushed, because the rows of tables that this needs
  // are not available at the version any more. The worker asks all slices for their versions again.
  void OnNoRows(uint64_t ticket);
  void OnEvaluated(uint64_t ticket);
  void OnReported(uint64_t ticket);

  // This worker's place among the workers; its positions of a step are the rank and every number of
  // workers further. UINT64_MAX before the first view.
  uint64_t rank() const { return rank_; }

  // The figures that heartbeats report.
  bool has_step() const { return state_ == State::kAtStep; }
  uint64_t step() const { return step_; }
  bool is_at_end() const { return has_step() && step_ >= view_.last_step; }
  std::string Activity() const;

 private:
  enum class State { kIdle, kFinding, kPulling, kAtStep };
  enum class PositionState : uint8_t {
    kTodo,
    kPushing,
    kPushed,
    kWithheld,
    kBad,
    kReporting,
    kReported
  };
  struct GroupState {
    bool has_version = false;   // kFinding
    uint64_t version = 0;       // the lowest of the group's slices
    bool holds_target = false;  // the version that is being pulled has arrived
    bool in_flight = false;     // a query or a pull is under way
  };
  // An action under way.
  struct Ticket {
    uint64_t id = 0;
    SyncAction::Kind kind = SyncAction::kWait;
    uint64_t round = 0;
    uint32_t groups_left = 0;
    uint64_t step = 0;
    uint32_t position = 0;
    uint32_t gradient_set = 0;
    uint64_t block = 0;
    std::optional<uint32_t> helps;  // the position's worker, if that is another one
    bool pulls = false;
    bool withheld = false;
    bool bad = false;
    bool duplicate = false;  // a slice had the contribution already
    bool lost = false;       // an exchange ended with an error
  };

  bool IsMember() const { return rank_ < view_.workers.size(); }
  void Restart();
  void StartStep(absl::Time now);
  void AdvanceIfComplete(absl::Time now);
  bool AllHoldTarget() const;
  bool AnyPullOfOlderRound() const;
  std::optional<uint32_t> FreeGradientSet() const;
  // Returns whether this worker computes the position, as its own or as help.
  bool HasPosition(uint32_t position) const;
  bool IsPending(uint32_t position) const;
  bool IsDecided(uint32_t position) const;  // skipped or delivered
  StepHelp::Place Place() const {
    return {rank_, static_cast<uint32_t>(positions_.size()), view_.workers};
  }
  // Returns the position's worker; none if the position is this worker's own.
  std::optional<uint32_t> FindOtherWorker(uint32_t position) const;
  bool HelpIfLate(absl::Time now);

  void RetryIfDue(absl::Time now);
  bool NextFinding(SyncAction* action);
  bool NextPull(absl::Time now, SyncAction* action);
  bool NextEvaluation(SyncAction* action);
  bool NextReport(SyncAction* action);
  bool NextCompute(absl::Time now, SyncAction* action);
  Ticket& Open(SyncAction* action, SyncAction::Kind kind, uint32_t num_groups);
  Ticket* Find(uint64_t ticket);
  void Close(uint64_t ticket);
  void FinishGroup(absl::Time now, uint64_t ticket);
  void TakeOutcomes(Ticket& ticket, const ExchangeResult& result);
  void TakePulls(uint32_t group, const ExchangeResult& result);
  void TakeVersions(uint32_t group, const ExchangeResult& result);

  const Options options_;
  const StepPlan plan_;
  uint32_t num_versioned_groups_ = 0;

  SyncView view_;
  uint64_t rank_ = UINT64_MAX;
  State state_ = State::kIdle;
  // Rises with every restart; results of older rounds only free buffers.
  uint64_t round_ = 0;
  // The version that is being pulled (kPulling) or that of the current parameters (kAtStep).
  uint64_t step_ = 0;
  uint32_t current_set_ = 0;
  bool set_has_unversioned_[2] = {false, false};
  std::vector<GroupState> groups_;
  std::vector<PositionState> positions_;
  absl::Time retry_ = absl::InfiniteFuture();  // when to try withheld or reported positions again
  bool was_reported_ = false;                  // since the last Next
  std::set<uint64_t> evaluated_;               // blocks at step_ that are under way or acknowledged
  uint64_t evaluations_left_ = 0;              // evaluations under way
  std::vector<uint32_t> missing_positions_;    // those last received
  bool received_missing_ = false;              // received since they were last considered
  std::vector<Ticket> tickets_;
  std::vector<uint32_t> action_groups_;
  uint64_t next_ticket_ = 1;
  StepHelp help_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_SYNC_STEP_LOGIC_H_
