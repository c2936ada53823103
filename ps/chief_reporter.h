// Reports applied steps, poisoned slices and norms of this ps to the chief.
#ifndef SHOAL_PS_CHIEF_REPORTER_H_
#define SHOAL_PS_CHIEF_REPORTER_H_

#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "ps/chief_report_logic.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace v1 {
class Identity;
}

// A ChiefReportLogic with a thread that makes its calls. Thread-safe; Add... never blocks.
class ChiefReporter {
 public:
  struct Options {
    ChiefClient* chief = nullptr;            // Must outlive the reporter.
    const Clock* clock = nullptr;            // Must outlive the reporter.
    std::function<v1::Identity()> identity;  // Returns the task's current identity.
    // Applies the scale of `step` to the slices that wait for it.
    std::function<absl::Status(const ChiefReportLogic::Scale& scale)> apply_scale;
    // Called when the logic has failed; nothing is sent after that.
    std::function<void(const absl::Status& failure)> on_failure;
  };

  explicit ChiefReporter(Options options);
  // The same as Stop.
  ~ChiefReporter();

  // See the functions of the same names in ChiefReportLogic.
  void StartLineage(uint64_t lineage, size_t num_norms);
  void AddSteps(const std::vector<SliceStoreEvents::Step>& steps);
  void HurrySteps();
  void AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned);
  void AddNorms(const std::vector<SliceStoreEvents::Norm>& norms);

  // Waits for the call that is under way, then ends the thread. Idempotent.
  void Stop();

 private:
  void Run();
  // Wakes the thread if it has something to do before the time at which it wakes anyway.
  void WakeIfDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the next call. Returns false if the reporter stops.
  bool WaitForCall(ChiefReportLogic::Call* call);
  void Send(v1::ReportStepsRequest* request);
  void Send(v1::ReportNormsRequest* request);
  // Fills in all but the lineage.
  void Identify(v1::Identity* identity) const;

  const Options options_;
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  // The time until which the thread sleeps; InfinitePast: it is awake.
  absl::Time sleeps_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  ChiefReportLogic logic_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PS_CHIEF_REPORTER_H_
