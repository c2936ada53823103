#ifndef SHOAL_WORKER_SYNC_TRAINER_H_
#define SHOAL_WORKER_SYNC_TRAINER_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/chief_client.h"
#include "worker/replica.h"
#include "worker/sync_step_logic.h"
#include "worker/trainer.h"

namespace shoal {

// Executes what SyncStepLogic says: computes batches, pushes and pulls, evaluates, reports. The
// step logic sits behind a mutex; computing happens outside it, so that answers are taken in
// meanwhile.
class SyncTrainer : public Trainer {
 public:
  explicit SyncTrainer(const TrainerOptions& options);
  ~SyncTrainer() override;  // The store must have been shut down.

  absl::Status Run() override;
  void OnState(const v1::RunState& state) override;
  Progress progress() const override;

 private:
  // One exchange under way: what its callback needs. Taken from a pool, so that steps allocate
  // nothing.
  struct Flight {
    SyncTrainer* trainer = nullptr;
    uint64_t ticket = 0;
    uint32_t group = 0;
    bool used = false;
  };

  bool TakeState() ABSL_LOCKS_EXCLUDED(mutex_);
  void Execute(const SyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void Compute(const SyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void Evaluate(const SyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReportBad(const SyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void StartAll(const SyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void Start(const Exchange& exchange, uint64_t ticket) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(Flight* flight, const ExchangeResult& result) ABSL_LOCKS_EXCLUDED(mutex_);

  const TrainerOptions options_;
  const StepPlan plan_;
  Prefetcher train_batches_;
  Prefetcher test_batches_;
  mutable Mutex mutex_;
  CondVar changed_;
  SyncStepLogic logic_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RunState> new_state_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<BatchKey> in_hand_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_SYNC_TRAINER_H_
