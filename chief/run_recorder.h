#ifndef SHOAL_CHIEF_RUN_RECORDER_H_
#define SHOAL_CHIEF_RUN_RECORDER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "chief/chief.h"
#include "chief/chief_metrics.h"
#include "chief/run_history.h"
#include "runtime/observability/metrics_events.h"
#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/observability/summary.h"
#include "runtime/observability/table_figures.h"
#include "runtime/variables/metric_sums.h"

namespace shoal {

// Returns the figures of a table as metrics.jsonl has them.
TableFigures FiguresOf(const v1::GetRunStatusResponse::Table& table);

// Keeps a run's records: metrics.jsonl, event files, the progress bar, the history for the page of
// the run, and the figures of summary.json. Checkpoints are written by the functions it is given.
// Any thread may call summary() and history().
class RunRecorder : public SessionRecorder {
 public:
  struct Options {
    FileSystem* file_system = nullptr;  // Borrowed, like all pointers here.
    const Clock* clock = nullptr;
    std::string directory;  // The run's directory.
    // The number of steps before this start. In ASYNC it removes no lines: the ps that owns the
    // report slice counts the steps, and its first report says which lines are void.
    uint64_t first_step = 0;
    bool synchronous = true;
    uint64_t scalars_every = 0;            // Steps between points in event files; 0: none.
    ProgressReporter* progress = nullptr;  // May be null.
    uint32_t num_epochs = 0;  // The progress shows it; 0: the number that follows from the steps.
    // Makes a checkpoint of complete shards: writes the manifest.
    std::function<absl::Status(const ManifestToWrite&)> publish;
    // Makes a checkpoint's model.safetensors.
    std::function<absl::Status(const ModelExport&)> export_model;
    // Removes old checkpoints.
    std::function<void()> prune;
    // Removes the directory of a checkpoint that could not be made.
    std::function<absl::Status(const std::string& directory)> discard_failed;
    // Removes checkpoints above a step, because the run went back to it.
    std::function<absl::Status(uint64_t step)> discard_above;
    // Returns ABORTED once another chief has taken the run over.
    std::function<absl::Status()> may_write;
  };

  // Opens metrics.jsonl and, in SYNC, cuts it back to first_step.
  static absl::StatusOr<std::unique_ptr<RunRecorder>> Create(const Options& options);

  void Record(const StepLine& line) override;
  absl::Status Record(const RolledBack& rolled_back) override;
  void Record(const TrainingStarts& starts) override;
  void WriteWaitingLines() override;
  absl::Status Publish(const ManifestToWrite& manifest) override;
  absl::Status Export(const ModelExport& wanted) override;
  void OnCheckpointAccepted() override { options_.prune(); }
  absl::Status OnCheckpointFailed(const CutGivenUp& cut) override;
  absl::Status DiscardAbove(uint64_t step) override;
  void OnNote(const SessionNote& note) override;
  void Record(const InitialValuesDiffer& differ) override;
  absl::Status CheckTerm() override { return options_.may_write(); }

  void Describe(v1::GetRunStatusResponse* run) const override;
  const ChiefMetrics& metrics() const { return chief_metrics_; }
  const RunHistory& history() const { return history_; }

  // Returns summary.json without status, exit_reason, test figures and checkpoint.
  Summary summary() const;
  // Returns whether a step was applied since the start.
  bool any_step() const;
  // Writes the lines that could not be written before; training continued without them. Call it
  // when no more records come.
  absl::Status FlushLines();

 private:
  RunRecorder(const Options& options, std::unique_ptr<MetricsFile> metrics);
  void WriteLine(const StepMetrics& metrics);
  void SetMetricsFailure(const absl::Status& status);
  void WriteEvents(const StepMetrics& metrics);
  void Count(const StepMetrics& metrics);
  // Shows the first value of each metric that is not finite.
  void WarnOfMetrics(const v1::StepReport& report, const MetricSums& sums);
  double RateAt(absl::Time now, uint64_t examples) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountExamples(uint64_t step, uint64_t examples) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const absl::Time created_;
  ChiefMetrics chief_metrics_;
  RunHistory history_;
  // Used by the recording thread only.
  std::unique_ptr<MetricsFile> metrics_file_;
  std::unique_ptr<MetricsEvents> events_;  // Null: the run file asks for none.
  bool events_are_written_ = true;
  std::set<std::string> warned_;  // The metrics of which a value was not finite.
  // Used by the publishing thread only: the last checkpoint has failed.
  bool checkpoints_fail_ = false;
  mutable Mutex mutex_;
  absl::Time training_since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time last_step_time_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time window_start_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  uint64_t window_examples_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t window_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  // False: the rates are those of all steps since training started.
  bool has_whole_window_ ABSL_GUARDED_BY(mutex_) = false;
  double rate_ ABSL_GUARDED_BY(mutex_) = 0;       // Examples per second.
  double step_rate_ ABSL_GUARDED_BY(mutex_) = 0;  // Steps per second.
  // The reason why lines wait; empty: they do not.
  std::string metrics_failure_ ABSL_GUARDED_BY(mutex_);
  std::string metric_warnings_ ABSL_GUARDED_BY(mutex_);  // A line for each metric in warned_.
  absl::Time checkpoint_time_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t examples_ ABSL_GUARDED_BY(mutex_) = 0;  // The sum of examples over all valid lines.
  // The examples of the valid lines, in case they become void. Most lines have as many as the one
  // before: one entry covers consecutive steps.
  struct StepsAlike {
    uint64_t first_step = 0;
    uint64_t num_steps = 0;
    uint64_t examples = 0;  // The number of each step.
  };
  std::vector<StepsAlike> examples_of_ ABSL_GUARDED_BY(mutex_);
  uint64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  // The steps and losses of the newest valid lines.
  std::deque<std::pair<uint64_t, double>> losses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_RUN_RECORDER_H_
