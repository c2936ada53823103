#ifndef SHOAL_WORKER_STEPPING_TRAINER_H_
#define SHOAL_WORKER_STEPPING_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ml/data/prefetcher.h"
#include "proto/v1/chief_service.pb.h"
#include "worker/compute_count.h"
#include "worker/replica/batch_keys.h"
#include "worker/trainer.h"

namespace shoal {

// The part of a trainer that does not depend on its mode. It receives the run's state and the
// results of exchanges while it computes, asks its step logic for the next action, executes it, and
// evaluates and reports blocks. A mode adds its step logic, guarded by `mutex_`, and the execution
// of its actions.
class SteppingTrainer : public Trainer {
 public:
  ~SteppingTrainer() override;  // The store must have been shut down.

  absl::Status Run() final;
  void OnState(const v1::RunState& state) final;

 protected:
  explicit SteppingTrainer(const TrainerOptions& options);

  // --- Implemented by a mode. All but Execute are called with the mutex held, by the thread of Run
  // or, for OnExchange, by a thread of the store.
  virtual void TakeView(const v1::RunState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Asks the step logic for the next action. Returns nullopt if Execute has something to do,
  // otherwise the time at which to ask again.
  virtual std::optional<absl::Time> PlanNext(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  virtual void Execute() ABSL_LOCKS_EXCLUDED(mutex_) = 0;
  virtual void OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // --- Used by a mode.
  // Starts an exchange; OnExchange is called with its ticket when it is done. Allocates nothing.
  void Start(const Exchange& exchange, uint64_t ticket) ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes the exchange pull the group into a set of parameters: values, or the rows for which
  // PrepareRows prepared the set.
  void SetPull(uint32_t parameter_set, uint64_t lineage, Exchange* exchange);

  // Models with tables: prepares a set of parameters for pulls of the rows of `next`, the batch
  // that the worker probably computes next, and waits until this batch is read. If there is no such
  // batch, or only the program knows its keys and has not named them, the set is prepared for pulls
  // of versions alone. If the worker then computes another batch, Train pulls its rows itself.
  void PrepareRows(uint32_t parameter_set, const std::optional<BatchKey>& next);

  // A batch, the update that it contributes to (in ASYNC: the one after the values that it starts
  // from), and the sets that it is computed with.
  struct Work {
    BatchKey batch;
    uint64_t lineage = 0;
    uint64_t version = 0;  // SYNC: the version of the parameters
    uint64_t step = 0;
    uint32_t parameter_set = 0;
    uint32_t contribution_set = 0;
    // The training batches that this worker probably computes next.
    absl::Span<const BatchKey> next;
  };
  // Loads the batch, calls `read_ahead`, which schedules the reading of the next batches, and
  // trains the replica on the batch, which is marked as the current one meanwhile. Returns false,
  // and calls on_group for no group, if the rows of tables that the batch reads cannot be pulled
  // any more: the run's state has changed, or the other workers have continued without this one.
  bool Train(const Work& work, absl::FunctionRef<void()> read_ahead, Replica::OnGroup on_group)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Evaluates the block with the parameters and reports the result to the chief. kEnd: Run is about
  // to return. kNoRows: as when Train returns false.
  enum class Evaluation { kReported, kNoRows, kEnd };
  Evaluation EvaluateBlock(uint64_t lineage, uint64_t version, uint64_t block,
                           uint32_t parameter_set) ABSL_LOCKS_EXCLUDED(mutex_);

  // Reports to the chief that the batch is not finite. Returns false if Run is about to return.
  bool ReportNonFinite(uint64_t lineage, const BatchKey& batch, uint64_t step)
      ABSL_LOCKS_EXCLUDED(mutex_);

  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    woken_ = true;
    changed_.NotifyAll();
  }

  const TrainerOptions options_;
  ComputeCount computed_;  // For heartbeats.
  Prefetcher train_batches_;
  mutable Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // If not OK, Run returns it.

 private:
  // One exchange under way, with the data for its callback. It comes from a pool, so that steps
  // allocate nothing.
  struct Flight {
    SteppingTrainer* trainer = nullptr;
    uint64_t ticket = 0;
    uint32_t group = 0;
    bool used = false;
  };

  // Reports to the chief that the batch crashed this worker's computation; the crash of another
  // incarnation makes it a bad batch.
  void ReportCrash(const BatchKey& batch, uint64_t step, const absl::Status& crash)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the batch, which is read already if it is the one of PrepareRows.
  absl::StatusOr<const LoadedBatch*> TakeTrainBatch(const BatchKey& batch);
  // Makes the set have the rows of the keys, and meanwhile receives the run's state. Returns false
  // as Train does.
  bool PullRows(const BatchKeys& keys, uint32_t row_set, uint64_t lineage, uint64_t version)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void TakeRows(const ExchangeResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountBatch(const LoadedBatch& batch, absl::Duration reading, absl::Duration all);
  void TakeState() ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns whether the replica's program has ended. It looks only every 100 ms.
  bool ProgramHasEnded() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until `wake`, until something wakes the thread, or until the program is to be checked.
  void WaitUntil(absl::Time wake) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnDone(Flight* flight, const ExchangeResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  // Repeats the call until its outcome is known. An answer about another lineage counts as OK,
  // because the new state of the run says what to do next. Returns false if Run is about to return.
  bool CallChief(absl::FunctionRef<absl::Status()> call) ABSL_LOCKS_EXCLUDED(mutex_);

  Prefetcher test_batches_;
  const LoadedBatch* ahead_ = nullptr;  // the batch of PrepareRows, which is taken
  // The time of the next check of the program; only the thread of Run uses it.
  absl::Time next_check_ = absl::InfinitePast();
  uint64_t lineage_ = 0;  // The lineage of the newest state taken; only the thread of Run uses it.
  CondVar changed_;
  std::vector<std::unique_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RunState> new_state_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  // The exchanges of PullRows: the version that they pull, the number of those under way, and
  // whether one of the others found that a bucket has not reached the version (late) or does not
  // have it any more (gone).
  uint64_t rows_version_ ABSL_GUARDED_BY(mutex_) = 0;
  uint32_t row_pulls_left_ ABSL_GUARDED_BY(mutex_) = 0;
  bool rows_are_late_ ABSL_GUARDED_BY(mutex_) = false;
  bool rows_are_gone_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_STEPPING_TRAINER_H_
