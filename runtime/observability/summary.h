// summary.json tells programs how a run ended. Its fields are documented and stable; absent values
// are null.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_H_
#define SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "runtime/observability/table_figures.h"

namespace shoal {

class FileSystem;

struct Summary {
  std::string status;                  // "finished", "stopped" or "failed"
  std::string exit_reason;             // A sentence for people.
  uint64_t steps = 0;                  // Applied updates over the whole run.
  std::optional<double> epochs;        // Epochs trained in the whole run; may be a fraction.
  std::optional<uint64_t> first_step;  // Applied before this start: the step that it resumed from.
  std::optional<uint64_t> examples;    // Trained on in this start of the run.
  // Batches that were skipped in the whole run, because they were not finite or workers crashed on
  // them.
  std::optional<uint64_t> skipped_batches;
  // The time from the start of the chief to its end, in this start of the run.
  std::optional<double> seconds;
  // The time from the start of the first step to the end of the last, in this start.
  std::optional<double> train_seconds;
  std::optional<double> examples_per_second;  // examples / train_seconds
  std::optional<double> final_loss;           // The loss of the last step.
  std::optional<uint64_t> test_step;          // The step that the last evaluation is of.
  std::optional<double> test_loss;            // The loss of the last evaluation.
  std::optional<double> test_accuracy;
  // Other metrics of the last evaluation, by name: the fields test_NAME.
  std::map<std::string, std::optional<double>> test_named;
  std::optional<std::string> checkpoint;          // Path of the newest one.
  std::optional<std::string> checkpoint_failure;  // The reason why none could be made after it.
  // A line for each metric of which a value was not finite in this start.
  std::optional<std::string> metric_warning;
  TablesFigures tables;  // The newest reports of the ps. No fields if the run has no tables.
};

// Sets the fields of the last evaluation to that in metrics.jsonl in `directory`, if it has one.
void SetLastEvaluation(FileSystem* file_system, const std::string& directory, Summary* summary);

std::string SummaryJson(const Summary& summary);

// Writes summary.json in `directory`, atomically and durably.
absl::Status WriteSummary(FileSystem* file_system, const std::string& directory,
                          const Summary& summary);

// Reads summary.json in `directory`. NotFound if the file does not exist.
absl::StatusOr<Summary> ReadSummary(FileSystem* file_system, const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_H_
