#ifndef SHOAL_CHIEF_LEDGERS_DATA_LEDGER_H_
#define SHOAL_CHIEF_LEDGERS_DATA_LEDGER_H_

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
#include "chief/ledgers/evaluation_round.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// Decides which worker computes which batch in asynchronous training: every batch of every epoch is
// finished (applied by every slice) or skipped exactly once, whichever task dies.
//
//   never leased --> leased to a worker --> finished --> lost by a ps that came back from a
//        |               |    ^                ^          checkpoint: leased again, for that ps
//        |               v    | worker died    +------------------------+
//        +-----------> skipped (non-finite, or two worker processes crashed on it)
//
// A worker holds a chunk: a tenth of its even share of what is left before the next pause, 1 to
// 1024 batches. Batches whose worker died, or that a ps lacks, are leased before new ones.
// When the number of updates reaches the next evaluation (every `evaluate_every`, or at an epoch's
// end if that is 0, and at the end of the run), leasing stops, outstanding batches drain, and the
// blocks of the test split are handed out; then leasing continues. So evaluations and max_steps are
// exact: leased batches never exceed what is left.
// The number of updates is the number of finished batches; skipped ones do not count.
//
// The dedupe at the ps provides safety (a batch leased twice is applied once); this object makes
// sure that none is forgotten. Reports are idempotent, calls are numbered, late calls change
// nothing. Not thread-safe. It has no clock: leases end when the membership says that the worker is
// lost.
class DataLedger {
 public:
  struct Options {
    uint32_t num_workers = 1;  // Chunks are sized for at least this number of workers.
    uint64_t max_steps = 0;    // The run ends after this number of updates; 0: see num_epochs.
    // The run ends after this number of epochs; 0: see max_steps. Both 0: never.
    uint32_t num_epochs = 0;
    uint64_t evaluate_every = 0;
    uint64_t evaluation_blocks = 0;  // 0: there are no evaluations.
    // SSP: no worker starts more than this many batches ahead of the slowest; -1: no bound.
    int64_t clock_bound = -1;
  };

  // `plan` aggregates one batch per step.
  DataLedger(const Options& options, const StepPlan& plan);

  // Answers a call of ChiefService.LeaseBatches. `may_lease`: false while the run is not training;
  // then the call only reports.
  v1::LeaseBatchesResponse LeaseBatches(const v1::LeaseBatchesRequest& request, bool may_lease);

  // Notes that the worker's lease ended, or that a later incarnation took its place: other workers
  // get its batches. If the same incarnation gets its place back, it cannot finish batches that it
  // was leased before.
  void OnWorkerLost(uint32_t worker, uint64_t incarnation);

  // Notes that a worker has evaluated a block at a version. Returns false if the result is not
  // needed, or not any more.
  bool FinishBlock(uint64_t version, uint64_t block);

  // Skips the batch for ever. Returns false if it is skipped already or does not exist.
  bool Skip(const BatchKey& batch, absl::string_view reason);
  // Notes that a worker's process crashed on this batch. Returns true if it was the second process
  // that did; then the batch is skipped.
  bool ReportCrash(const BatchKey& batch, uint32_t worker, uint64_t incarnation);

  // Notes that the ps lost its state. The run neither evaluates nor ends before it is back.
  void OnPsLost(uint32_t ps);
  // Notes that the ps serves again. All its slices contain the batches in `applied`, and no batch
  // of an epoch that is not listed. Batches that were finished but are missing there are leased
  // again for this ps. Workers that do not know `view` yet get no leases, because they might still
  // push to the former process. FailedPrecondition: missing batches have another size and cannot be
  // computed.
  absl::Status OnPsReturned(uint32_t ps, absl::Span<const EpochBatches> applied, uint64_t view);
  // Returns the epochs that OnPsReturned needs: [first, last].
  std::pair<uint32_t, uint32_t> EpochsToAsk() const;

  // Returns the first epoch that is not complete. A cut that is requested now contains all batches
  // of the epochs before.
  uint32_t FirstOpenEpoch() const;
  // Forgets the epochs before this one. Call it once the checkpoint of that cut is durable, and
  // then let the ps do the same (SliceStore::ForgetEpochsBefore).
  void ForgetEpochsBefore(uint32_t epoch);

  // Write and read the ledger of a manifest. Restore needs a new ledger; then call OnPsReturned for
  // every ps. DataLoss: damaged. FailedPrecondition: another batch size in the middle of an epoch.
  std::string Serialize() const;
  absl::Status Restore(absl::string_view bytes);

  // SSP: the most advanced of the workers that get no batches because they are too far ahead of the
  // slowest.
  struct HeldUp {
    uint32_t worker = 0;
    uint32_t slowest = 0;
    uint64_t ahead = 0;
  };
  std::optional<HeldUp> FindHeldUpWorker() const;

  uint64_t updates() const { return updates_; }
  bool is_done() const { return done_; }
  // Returns whether no new batches will be leased any more.
  bool is_at_end() const;
  bool is_evaluating() const { return round_.is_active(); }
  uint64_t num_finished(uint32_t epoch) const;
  const std::map<BatchKey, std::string>& skipped() const { return skipped_; }

 private:
  static constexpr int64_t kNoWorker = -1;

  // A batch that a worker has or has to get (again).
  struct Open {
    bool counted = false;         // It was finished once; a ps lost it.
    std::vector<uint32_t> ps;     // The ps that lack it; empty: all.
    std::vector<uint32_t> again;  // Ps that came back since it was leased and may lack it.
    int64_t worker = kNoWorker;
    bool stale = false;
  };
  struct Worker {
    uint64_t incarnation = 0;
    uint64_t last_number = 0;
    // The number of batches that it has finished, plus those of the slowest worker at the time when
    // this one came.
    uint64_t clock = 0;
    std::vector<BatchKey> held;  // Ordered as they were leased.
    // The first call after the worker was lost gets no leases: with its answer the worker drops
    // what it held.
    uint64_t returned_with = 0;
  };
  struct Epoch {
    IntervalSet finished;
    IntervalSet skipped;
  };

  // A worker that was lost and calls again.
  struct Lost {
    uint64_t incarnation = 0;
    uint64_t last_number = 0;
  };

  // Returns null for a call that has no effect any more; `number` is the call's.
  Worker* Admit(uint32_t index, uint64_t incarnation, uint64_t number);
  void Finish(uint32_t worker_index, Worker* worker, const BatchKey& batch);
  void Grant(uint32_t worker_index, Worker* worker, uint32_t want);
  bool OpenNext();
  void PassSkipped();
  void Reissue(const BatchKey& batch, uint32_t ps);
  v1::LeaseBatchesResponse AnswerFor(uint32_t worker_index, const Worker& worker);
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
  uint64_t num_pending_ = 0;  // Open batches that will be updates.
  BatchKey next_;             // The first batch that was never leased.
  std::map<uint32_t, Epoch> epochs_;
  std::map<BatchKey, Open> open_;
  std::set<BatchKey> queue_;  // Open batches that no worker has.
  std::map<uint32_t, Worker> workers_;
  std::map<uint32_t, Lost> lost_workers_;
  std::map<BatchKey, std::string> skipped_;
  // The processes (worker, incarnation) that crashed on open batches.
  std::map<BatchKey, std::set<std::pair<uint32_t, uint64_t>>> crashes_;

  std::set<uint32_t> lost_ps_;
  uint64_t least_view_ = 0;

  // The number of updates at which leasing stops for an evaluation.
  uint64_t pause_updates_ = UINT64_MAX;
  uint32_t pause_epoch_ = UINT32_MAX;  // Leasing stops before its first batch.
  EvaluationRound round_;
  uint64_t last_evaluated_ = 0;
  bool done_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_DATA_LEDGER_H_
