#include "deploy/launch/reconstructed_summary.h"

#include <utility>

#include "absl/status/statusor.h"

#include "base/file_system.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/observability/metrics_file.h"

namespace shoal {

std::string SummaryText(FileSystem* file_system, const std::string& directory) {
  const absl::StatusOr<Summary> summary = ReadSummary(file_system, directory);
  return summary.ok() ? SummaryJson(*summary) : "";
}

Summary SummaryFromFiles(const absl::Status& status, const LastShown& shown,
                         const std::string& directory, FileSystem* file_system) {
  Summary summary;
  summary.status = absl::IsCancelled(status) ? "stopped" : "failed";
  summary.exit_reason = std::string(status.message());
  const std::string metrics = directory + "/metrics.jsonl";
  const absl::StatusOr<StepMetrics> last = LastMetricsLine(file_system, metrics);
  if (last.ok()) summary.steps = last->step;
  if (shown.step > 0) summary.steps = shown.step;
  absl::StatusOr<StepMetrics> evaluated = LastEvaluation(file_system, metrics);
  if (evaluated.ok()) {
    summary.test_step = evaluated->step;
    summary.test_loss = evaluated->eval_loss;
    summary.test_accuracy = evaluated->eval_accuracy;
    summary.test_named = std::move(evaluated->eval_named);
  }
  if (!shown.checkpoint_failure.empty()) summary.checkpoint_failure = shown.checkpoint_failure;
  const std::string root = directory + "/checkpoints";
  if (!FileExists(*file_system, root)) return summary;  // Open would make it.
  const auto checkpoints = CheckpointDirectory::Open(*file_system, root);
  if (!checkpoints.ok()) return summary;
  const auto names = (*checkpoints)->List();
  if (names.ok() && !names->empty()) {
    summary.checkpoint = (*checkpoints)->GetPath(names->front().ToString());
  }
  return summary;
}

}  // namespace shoal
