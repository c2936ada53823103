#ifndef SHOAL_CHIEF_DATA_LEDGER_H_
#define SHOAL_CHIEF_DATA_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "base/interval_set.h"
#include "chief/evaluation_round.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// Who computes which batch, ASYNC: every batch of every epoch is finished (applied by every slice)
// or skipped exactly once, whoever dies.
//
//   never leased --> leased to a worker --> finished --> lost by a ps that came back from a
//        |               |    ^                ^          checkpoint: leased again, for that ps
//        only |               v    | worker died    +------------------------+
//        +-----------> skipped (non-finite, or two lives of workers ended on it)
//
// A worker holds a chunk: a tenth of its even share of what is left before the next pause, 1 to
// 1024 batches. Batches whose worker died, or that a ps lacks, are leased before new ones.
// Pauses: when as many updates are made as an evaluation wants (every `evaluate_every`, or at an
// epoch's end if that is 0, and at the end of the run), leasing stops, outstanding batches drain,
// the blocks of the test split are handed out, then leasing goes on. So evaluations and max_steps
// are exact: leased batches never exceed what is left.
// Updates = finished batches; skipped ones are none.
//
// Safety rests on the dedupe at the ps (a batch leased twice is applied once); this object sees to
// it that none is forgotten. Reports are idempotent, calls are numbered, late calls change nothing.
// Single-threaded, no clock: leases end when the membership says that the worker is lost.
class DataLedger {
 public:
  struct Options {
    uint32_t num_workers = 1;  // expected; chunks are cut for at least as many
    uint64_t max_steps = 0;    // updates; 0: by num_epochs
    uint32_t num_epochs = 0;   // 0: by max_steps; both 0: without end
    uint64_t evaluate_every = 0;
    uint64_t evaluation_blocks = 0;  // 0: no evaluations
    // SSP: no worker starts more than this many batches ahead of the slowest; -1: no bound.
    int64_t clock_bound = -1;
  };

  // `plan` aggregates one batch per step.
  DataLedger(const Options& options, const StepPlan& plan);

  // A call of LeaseBatches, decoded.
  struct Request {
    uint32_t worker = 0;
    uint64_t incarnation = 0;
    uint64_t view = 0;    // that the worker knows
    uint64_t number = 0;  // rises with every new call of the incarnation
    std::vector<BatchKey> finished;
    std::vector<BatchKey> stale;  // refused three times
    uint32_t want = 0;            // the most to hold at once; 0: only report
  };
  struct Lease {
    BatchKey batch;
    std::vector<uint32_t> ps;  // empty: all
  };
  struct Block {
    uint64_t version = 0;
    uint64_t block = 0;
  };
  struct Answer {
    std::vector<Lease> leases;  // all that the worker holds
    std::vector<Block> evaluations;
    bool ask_again = false;  // nothing to do now, but the run is not through
  };
  Answer LeaseBatches(const Request& request);

  // The worker's lease ended, or a later incarnation took its place: its batches are for others.
  void OnWorkerLost(uint32_t worker, uint64_t incarnation);

  // A block was evaluated at a version. False if that is not wanted (any more).
  bool FinishBlock(uint64_t version, uint64_t block);

  // The batch is never computed again. False if that is so already, or if there is no such batch.
  bool Skip(const BatchKey& batch, absl::string_view reason);
  // A life of a worker ended on this batch. True if that was the second, and the batch is skipped.
  bool ReportCrash(const BatchKey& batch, uint32_t worker, uint64_t incarnation);

  // The ps lost its state: no evaluation and no end of the run before it is back.
  void OnPsLost(uint32_t ps);
  // It serves again, from a checkpoint in which all its slices have `applied`; epochs that are not
  // listed: nothing. What was finished since is issued again for this ps. Workers that do not know
  // `view` yet get no leases (they might still push to the former process).
  // FailedPrecondition: what is missing was cut with another batch size and cannot be computed.
  absl::Status OnPsReturned(uint32_t ps, absl::Span<const EpochBatches> applied, uint64_t view);
  // The epochs that OnPsReturned wants to hear about: [first, last].
  std::pair<uint32_t, uint32_t> EpochsToAsk() const;

  // The first epoch that is not through. A checkpoint whose cut was asked for now and that is
  // durable later contains all batches of the epochs before.
  uint32_t FirstOpenEpoch() const;
  // That checkpoint is durable. Tell the ps (SliceStore::ForgetEpochsBefore) after this.
  void ForgetEpochsBefore(uint32_t epoch);

  // For the manifest, and from it. Restore wants a new ledger; then call OnPsReturned for every ps.
  // DataLoss: damaged. FailedPrecondition: another batch size in the middle of an epoch.
  std::string Serialize() const;
  absl::Status Restore(absl::string_view bytes);

  // SSP: a worker that gets no batches because it is too far ahead of the slowest, the most
  // advanced one.
  struct HeldUp {
    uint32_t worker = 0;
    uint32_t slowest = 0;
    uint64_t ahead = 0;
  };
  std::optional<HeldUp> WhoIsHeldUp() const;

  uint64_t updates() const { return updates_; }
  bool is_done() const { return done_; }
  // No new batches will be leased any more.
  bool is_at_end() const;
  bool is_evaluating() const { return round_.is_active(); }
  uint64_t last_evaluated() const { return last_evaluated_; }
  uint64_t num_outstanding() const { return open_.size(); }  // leased, or waiting to be again
  uint64_t num_finished(uint32_t epoch) const;
  const std::map<BatchKey, std::string>& skipped() const { return skipped_; }

 private:
  static constexpr int64_t kNobody = -1;

  // A batch that somebody has or has to get (again).
  struct Open {
    bool counted = false;         // it was finished once; a ps lost it
    std::vector<uint32_t> ps;     // who wants it; empty: all
    std::vector<uint32_t> again;  // ps that came back since it was leased and may lack it
    int64_t worker = kNobody;
    bool stale = false;
  };
  struct Worker {
    uint64_t incarnation = 0;
    uint64_t last_number = 0;
    uint64_t clock = 0;          // batches finished, plus the slowest's when it came
    std::vector<BatchKey> held;  // in the order of leasing
  };
  struct Epoch {
    IntervalSet finished;
    IntervalSet skipped;
  };

  Worker* Admit(const Request& request);
  void Finish(uint32_t worker_index, Worker* worker, const BatchKey& batch);
  void Grant(uint32_t worker_index, Worker* worker, uint32_t want);
  bool OpenNext();
  void PassSkipped();
  void Reissue(const BatchKey& batch, uint32_t ps);
  Answer AnswerFor(uint32_t worker_index, const Worker& worker);
  uint64_t NewLeft() const;
  uint64_t ChunkSize() const;
  uint64_t MinClock() const;
  bool HasStale() const;
  void SetPauses();
  void Advance();
  absl::Status CheckPlanFits(const std::map<uint32_t, Epoch>& epochs, const BatchKey& next,
                             uint64_t batches) const;
  void QueueUnfinished();

  const Options options_;
  const StepPlan plan_;

  uint64_t updates_ = 0;
  uint64_t num_pending_ = 0;  // open batches that will be updates
  BatchKey next_;             // never leased
  std::map<uint32_t, Epoch> epochs_;
  std::map<BatchKey, Open> open_;
  std::set<BatchKey> queue_;  // open batches that nobody has
  std::map<uint32_t, Worker> workers_;
  std::map<BatchKey, std::string> skipped_;
  std::map<BatchKey, std::set<std::pair<uint32_t, uint64_t>>>
      crashes_;  // Of open ones; (worker, incarnation)

  std::set<uint32_t> lost_ps_;
  uint64_t least_view_ = 0;

  uint64_t pause_updates_ = UINT64_MAX;  // leasing stops there for an evaluation
  uint32_t pause_epoch_ = UINT32_MAX;    // leasing stops before its first batch
  EvaluationRound round_;
  uint64_t last_evaluated_ = 0;
  bool done_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_DATA_LEDGER_H_
