#ifndef SHOAL_WORKER_SYNC_TRAINER_H_
#define SHOAL_WORKER_SYNC_TRAINER_H_

#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "worker/stepping_trainer.h"
#include "worker/sync_step_logic.h"

namespace shoal {

// Executes the actions of SyncStepLogic: computes batches, pushes and pulls, evaluates, reports.
class SyncTrainer : public SteppingTrainer {
 public:
  explicit SyncTrainer(const TrainerOptions& options);
  ~SyncTrainer() override;  // The store must have been shut down.

  Progress progress() const override;

 private:
  void TakeView(const v1::RunState& state) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<absl::Time> PlanNext(absl::Time now) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Execute() override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Compute() ABSL_LOCKS_EXCLUDED(mutex_);
  void Push(uint32_t group, const BatchReport& report) ABSL_LOCKS_EXCLUDED(mutex_);
  void Evaluate() ABSL_LOCKS_EXCLUDED(mutex_);
  std::optional<BatchKey> FirstOfNextStep() const ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAll() ABSL_LOCKS_EXCLUDED(mutex_);

  const StepPlan plan_;
  std::vector<BatchKey> next_;  // The batches that probably follow the one being computed.
  // True until PrepareRows was called for this batch, before its first group of buckets is pulled.
  bool must_prepare_rows_ = false;
  SyncAction action_;  // The action being executed; only the thread of Run changes it.
  SyncStepLogic logic_ ABSL_GUARDED_BY(mutex_);
  std::optional<BatchKey> current_batch_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_SYNC_TRAINER_H_
