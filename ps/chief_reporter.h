// Tells the chief what the slices of this ps have done.
#ifndef SHOAL_PS_CHIEF_REPORTER_H_
#define SHOAL_PS_CHIEF_REPORTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "absl/status/status.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/retry.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace v1 {
class Identity;
}

// Steps and poisoned slices are reported in order, as many as have gathered; squared norms when all
// slices of this ps have theirs, so that the chief's answer, the scale, need not wait for what this
// ps still holds. All are repeated until answered, or until another lineage starts. Thread-safe;
// Add... never blocks.
class ChiefReporter {
 public:
  struct Options {
    ChiefClient* chief = nullptr;            // Must outlive the reporter,
    const Clock* clock = nullptr;            // as must this.
    std::function<v1::Identity()> identity;  // The task's, now.
    // The scale of `step`, for the slices that wait for it.
    std::function<void(uint64_t lineage, uint64_t step, double scale)> apply_scale;
  };

  explicit ChiefReporter(Options options);
  // The same as Stop.
  ~ChiefReporter();

  // Forgets what has not been reported. `num_norms`: how many slices of this ps have norms.
  void StartLineage(uint64_t lineage, size_t num_norms);
  void AddSteps(const std::vector<SliceStoreEvents::Step>& steps);
  void AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned);
  void AddNorms(const std::vector<SliceStoreEvents::Norm>& norms);

  // Waits for the call under way. Idempotent.
  void Stop();

 private:
  enum class Sent { kNothing, kGood, kFailed };

  void Run();
  Sent SendSteps();
  Sent SendNorms();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether to forget what was refused.
  static bool IsRefused(const absl::Status& status);

  const Options options_;
  Backoff backoff_{1, absl::Milliseconds(50), absl::Seconds(1)};  // Of the thread.
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t lineage_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t num_norms_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<SliceStoreEvents::Step> steps_ ABSL_GUARDED_BY(mutex_);
  std::vector<SliceStoreEvents::Poisoned> poisoned_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::vector<SliceStoreEvents::Norm>> norms_
      ABSL_GUARDED_BY(mutex_);  // By step.
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PS_CHIEF_REPORTER_H_
