#ifndef SHOAL_DEPLOY_LAUNCH_RUN_DISPLAY_H_
#define SHOAL_DEPLOY_LAUNCH_RUN_DISPLAY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "deploy/launch/output_tail.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/observability/metrics_tail.h"

namespace shoal {

class FileSystem;
class ProgressReporter;

// Returns the name of the run's compute program in messages, such as train.py; "" if it has none.
std::string ProgramName(const v1::RunConfig& run);

// Shows the user what the chief of a run reports: the steps from metrics.jsonl, where the run
// resumed, rollbacks, skipped batches, checkpoints and metrics that fail, and initial values that
// differ. Not thread-safe.
class RunDisplay {
 public:
  struct Options {
    const v1::RunConfig* run = nullptr;  // Borrowed. Resolved.
    // Borrowed.
    FileSystem* file_system = nullptr;
    ProgressReporter* progress = nullptr;
    // The checkpoint from which the run should resume; empty: there is none. A warning is shown if
    // it resumes from another one.
    std::string newest_checkpoint;
    // The path of the chief's log, which this warning names. Its own warnings of programs whose
    // initial values differ are shown.
    std::string chief_log;
  };

  // Lines that metrics.jsonl and the log have now are not shown. Construct it before the chief
  // starts.
  explicit RunDisplay(Options options);

  // Shows the lines that metrics.jsonl got since the last call, and what is new in the chief's
  // status. nullopt: the chief has not answered yet.
  void Show(const std::optional<v1::GetRunStatusResponse>& status);

  // Shows the warnings in the chief's log and summary.json that Show has not shown, because the
  // chief of a short run ends before it is asked for them. Ignores a summary.json that is missing,
  // damaged, or equal to `before`, the text of an earlier start's.
  void ShowSummary(const std::string& before);

  // Returns why no checkpoint could be made after the newest one; empty if none failed.
  const std::string& checkpoint_failure() const { return checkpoint_failure_; }

 private:
  // Shows progress from the chief's status while lines of metrics.jsonl cannot be written.
  void ShowWithoutLines(const v1::GetRunStatusResponse& status);
  // Shows where the run resumed, and every rollback.
  void ShowReturns(const v1::GetRunStatusResponse& status);
  // Shows each batch that is skipped.
  void ShowSkipped(const v1::GetRunStatusResponse& status);
  // Warns when checkpoints begin to fail.
  void ShowFailedCheckpoints(const v1::GetRunStatusResponse& status);
  // Shows those of the lines in `all` that were not shown before.
  void ShowMetricWarnings(absl::string_view all);
  // Shows the chief's new warnings of programs whose initial values differ.
  void ShowInitialValues();
  // Warns when a ps comes near the limit of its memory.
  void ShowMemory(const v1::GetRunStatusResponse& status);

  const Options options_;
  MetricsTail metrics_;
  OutputTail chief_log_;
  const uint64_t step_before_;  // The last step of an earlier start; 0 if none.
  bool resume_is_shown_ = false;
  bool metrics_fail_ = false;  // The chief last reported that lines could not be written.
  std::string checkpoint_failure_;
  // The chief's last report.
  uint64_t rollbacks_ = 0;
  uint64_t failed_checkpoints_ = 0;
  std::string last_checkpoint_;
  std::string last_skipped_;
  std::string metric_warnings_;  // Those that were shown, in lines.
  bool memory_warning_is_shown_ = false;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_RUN_DISPLAY_H_
