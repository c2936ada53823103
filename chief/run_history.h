// Keeps the past of a run for its page: curves, checkpoints, and what happened.
#ifndef SHOAL_CHIEF_RUN_HISTORY_H_
#define SHOAL_CHIEF_RUN_HISTORY_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "runtime/observability/curve.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/run_page.h"

namespace shoal {

class FileSystem;

// Keeps a bounded history: curves of at most Curve::kMostPoints points, and the newest events and
// checkpoints. Thread-safe.
class RunHistory {
 public:
  static constexpr size_t kMostEvents = 100;
  static constexpr size_t kMostCheckpoints = 20;

  // `clock` is borrowed.
  explicit RunHistory(const Clock* clock) : clock_(*clock) {}

  // Adds the curves of an earlier start, from its metrics.jsonl. Reads at most some MiB; if the
  // file is larger, it reads blocks at equal distances.
  void AddLinesFrom(FileSystem* file_system, const std::string& path) ABSL_LOCKS_EXCLUDED(mutex_);
  // Notes that training starts; called again after each rollback.
  void SetPlan(const ProgressPlan& plan) ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const StepMetrics& line) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds an event at the newest step. If the last event that has a subject has the same one, only
  // its text is replaced. "" means no subject.
  void AddEvent(const std::string& text, bool is_trouble, const std::string& subject = "")
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes the points after this step, because the run has gone back to it.
  void GoBackTo(uint64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

  void OnCheckpoint(const std::string& directory, uint64_t step) ABSL_LOCKS_EXCLUDED(mutex_);
  void OnExported(const std::string& directory) ABSL_LOCKS_EXCLUDED(mutex_);
  // `why` names the step.
  void OnCheckpointFailed(const std::string& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Marks the checkpoints of later steps as void.
  void DiscardAbove(uint64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

  // Fills in the numbers of the newest line, the length of the run, curves, events and checkpoints.
  void Describe(RunPage* page) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void AddLine(const StepMetrics& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(RunPage::Checkpoint checkpoint) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  ProgressPlan plan_ ABSL_GUARDED_BY(mutex_);
  // The step and the time since which the run trains without a rollback.
  uint64_t first_step_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time training_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  StepMetrics last_ ABSL_GUARDED_BY(mutex_);
  std::optional<double> test_loss_ ABSL_GUARDED_BY(mutex_);
  std::optional<double> test_accuracy_ ABSL_GUARDED_BY(mutex_);
  Curve loss_ ABSL_GUARDED_BY(mutex_);
  Curve accuracy_ ABSL_GUARDED_BY(mutex_);
  Curve test_loss_curve_ ABSL_GUARDED_BY(mutex_);
  Curve test_accuracy_curve_ ABSL_GUARDED_BY(mutex_);
  Curve speed_ ABSL_GUARDED_BY(mutex_);
  // Metrics by name.
  struct Named {
    Curve train;
    Curve test;
    std::optional<double> newest_test;
  };
  std::map<std::string, Named> named_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_events_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last subject, and the number of its event.
  std::string subject_ ABSL_GUARDED_BY(mutex_);
  uint64_t event_of_subject_ ABSL_GUARDED_BY(mutex_) = 0;
  // Both have the newest entry first.
  std::deque<RunPage::Event> events_ ABSL_GUARDED_BY(mutex_);
  std::deque<RunPage::Checkpoint> checkpoints_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_RUN_HISTORY_H_
