#ifndef SHOAL_WORKER_STEPPING_TRAINER_H_
#define SHOAL_WORKER_STEPPING_TRAINER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ml/data/prefetcher.h"
#include "proto/v1/chief_service.pb.h"
#include "worker/compute_count.h"
#include "worker/trainer.h"

namespace shoal {

// The part of a trainer that does not depend on its mode: it takes in the run's state and the
// answers of exchanges while it computes, asks its step logic what is next, executes that,
// evaluates blocks and tells the chief. A mode adds its step logic, which sits behind `mutex_`, and
// what it executes.
class SteppingTrainer : public Trainer {
 public:
  ~SteppingTrainer() override;  // The store must have been shut down.

  absl::Status Run() final;
  void OnState(const v1::RunState& state) final;

 protected:
  explicit SteppingTrainer(const TrainerOptions& options);

  // --- What a mode adds. All but Execute with the mutex held, by the thread of Run or, for
  // OnExchange, of the store.
  virtual void TakeView(const v1::RunState& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Asks the step logic what is next, for Execute; what there is to wait for ends at the time that
  // is returned, nullopt: there is something to execute.
  virtual std::optional<absl::Time> PlanNext(absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  virtual void Execute() ABSL_LOCKS_EXCLUDED(mutex_) = 0;
  virtual void OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // --- What it may use.
  // Starts an exchange; OnExchange is called with its ticket when it is done. Allocates nothing.
  void Start(const Exchange& exchange, uint64_t ticket) ABSL_LOCKS_EXCLUDED(mutex_);

  // A batch, the update that it is for (in ASYNC: the next one at the values it starts from), and
  // the sets that it is computed with.
  struct Work {
    BatchKey batch;
    uint64_t step = 0;
    uint32_t parameter_set = 0;
    uint32_t contribution_set = 0;
  };
  // Loads the batch, calls `read_ahead` (what comes next is scheduled there), and trains the
  // replica on the batch, which is marked as the one in hand meanwhile.
  void Train(const Work& work, absl::FunctionRef<void()> read_ahead, Replica::OnGroup on_group)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Evaluates the block with the parameters and tells the chief. False: Run returns soon.
  bool EvaluateBlock(uint64_t lineage, uint64_t version, uint64_t block, uint32_t parameter_set)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Tells the chief that the batch is not finite. False: Run returns soon.
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
  absl::Status error_ ABSL_GUARDED_BY(mutex_);  // Not OK: Run ends with it.

 private:
  // One exchange under way: what its callback needs. Taken from a pool, so that steps allocate
  // nothing.
  struct Flight {
    SteppingTrainer* trainer = nullptr;
    uint64_t ticket = 0;
    uint32_t group = 0;
    bool used = false;
  };

  void CountBatch(const LoadedBatch& batch, absl::Duration reading, absl::Duration all);
  void TakeState() ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(Flight* flight, const ExchangeResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  // Calls until the outcome is known. An answer that speaks of another lineage is as good as OK:
  // the run's state tells what to do. False: Run returns soon.
  bool CallChief(absl::FunctionRef<absl::Status()> call) ABSL_LOCKS_EXCLUDED(mutex_);

  Prefetcher test_batches_;
  CondVar changed_;
  std::vector<std::unique_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RunState> new_state_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_STEPPING_TRAINER_H_
