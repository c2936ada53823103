#include "deploy/launch/reconstructed_summary.h"

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
  const absl::StatusOr<StepMetrics> last =
      LastMetricsLine(file_system, directory + "/metrics.jsonl");
  if (last.ok()) summary.steps = last->step;
  if (shown.step > 0) summary.steps = shown.step;
  SetLastEvaluation(file_system, directory, &summary);
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
