#ifndef SHOAL_WORKER_ASYNC_TRAINER_H_
#define SHOAL_WORKER_ASYNC_TRAINER_H_

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ml/data/prefetcher.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/chief_client.h"
#include "worker/async_step_logic.h"
#include "worker/replica.h"
#include "worker/trainer.h"

namespace shoal {

// Executes what AsyncStepLogic says: computes leased batches, pushes and pulls, evaluates, reports.
// The step logic sits behind a mutex; computing happens outside it. Calls for leases have a thread
// of their own, so that nobody waits for the chief while there is something to compute.
class AsyncTrainer : public Trainer {
 public:
  explicit AsyncTrainer(const TrainerOptions& options);
  // Waits for a call to the chief under way. The store must have been shut down.
  ~AsyncTrainer() override;

  absl::Status Run() override;
  void OnState(const v1::RunState& state) override;
  Progress progress() const override;

 private:
  // One exchange under way: what its callback needs. Taken from a pool, so that steps allocate
  // nothing.
  struct Flight {
    AsyncTrainer* trainer = nullptr;
    uint64_t ticket = 0;
    uint32_t group = 0;
    bool used = false;
  };

  bool TakeState() ABSL_LOCKS_EXCLUDED(mutex_);
  void Execute(const AsyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void PullAll(const AsyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void Compute(const AsyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void PushGroup(const AsyncAction& action, uint32_t group, const BatchReport& report)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Evaluate(const AsyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void ReportBad(const AsyncAction& action) ABSL_LOCKS_EXCLUDED(mutex_);
  void Start(const Exchange& exchange, uint64_t ticket) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnDone(Flight* flight, const ExchangeResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Call(const std::function<absl::Status()>& call) ABSL_LOCKS_EXCLUDED(mutex_);
  void RunLeases() ABSL_LOCKS_EXCLUDED(mutex_);
  void MakeLeaseCall() ABSL_LOCKS_EXCLUDED(mutex_);
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    woken_ = true;
    changed_.NotifyAll();
  }

  const TrainerOptions options_;
  Prefetcher train_batches_;
  Prefetcher test_batches_;
  // By group: what of the contributions is pushed. Of the exchange under way.
  std::vector<std::vector<const void*>> pushed_data_;
  mutable Mutex mutex_;
  CondVar changed_;
  AsyncStepLogic logic_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  std::optional<v1::RunState> new_state_ ABSL_GUARDED_BY(mutex_);
  uint64_t view_ ABSL_GUARDED_BY(mutex_) = 0;     // that the store knows
  uint64_t lineage_ ABSL_GUARDED_BY(mutex_) = 0;  // of that view
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool must_lease_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  CondVar lease_changed_;
  std::thread leases_;  // last: it uses all of the above
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ASYNC_TRAINER_H_
