#ifndef SHOAL_WORKER_ASYNC_TRAINER_H_
#define SHOAL_WORKER_ASYNC_TRAINER_H_

#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "worker/async_step_logic.h"
#include "worker/stepping_trainer.h"

namespace shoal {

// Executes the actions of AsyncStepLogic: computes leased batches, pushes and pulls, evaluates,
// reports. Calls for leases run on a separate thread, so that computing does not wait for the
// chief.
class AsyncTrainer : public SteppingTrainer {
 public:
  explicit AsyncTrainer(const TrainerOptions& options);
  // Waits for the call to the chief that is under way. The store must have been shut down.
  ~AsyncTrainer() override;

  Progress progress() const override;

 private:
  void TakeView(const v1::RunState& state) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<absl::Time> PlanNext(absl::Time now) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Execute() override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnExchange(uint64_t ticket, uint32_t group, const ExchangeResult& result) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Evaluate() ABSL_LOCKS_EXCLUDED(mutex_);
  void PullAll() ABSL_LOCKS_EXCLUDED(mutex_);
  void Compute() ABSL_LOCKS_EXCLUDED(mutex_);
  void Push(uint32_t group, const BatchReport& report) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunLeases() ABSL_LOCKS_EXCLUDED(mutex_);
  void MakeLeaseCall() ABSL_LOCKS_EXCLUDED(mutex_);

  // One entry per group: the contributions that the current exchange pushes.
  std::vector<std::vector<const void*>> pushed_data_;
  // True before the first group of buckets of this batch is pulled.
  bool must_prepare_rows_ = false;
  AsyncAction action_;  // The action being executed; only the thread of Run changes it.
  AsyncStepLogic logic_ ABSL_GUARDED_BY(mutex_);
  uint64_t view_ ABSL_GUARDED_BY(mutex_) = 0;     // the view that the store knows
  uint64_t lineage_ ABSL_GUARDED_BY(mutex_) = 0;  // the lineage of that view
  bool must_lease_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar lease_changed_;
  std::thread leases_;  // last: it uses all of the above
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ASYNC_TRAINER_H_
