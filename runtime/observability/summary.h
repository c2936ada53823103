// summary.json: how a run ended, for machines. Documented and stable; absent values are null.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_H_
#define SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

class FileSystem;

struct Summary {
  std::string status;                  // "finished", "stopped" or "failed"
  std::string exit_reason;             // In words.
  uint64_t steps = 0;                  // Applied updates over the whole run.
  std::optional<double> epochs;        // Passed through, over the whole run; may be a fraction.
  std::optional<uint64_t> first_step;  // Applied before this start: the step that it resumed from.
  std::optional<uint64_t> examples;    // Trained on in this start of the run.
  // Batches that were skipped in the whole run, because they were not finite or workers crashed on
  // them.
  std::optional<uint64_t> skipped_batches;
  std::optional<double> seconds;              // This start, from the chief's start to its end.
  std::optional<double> train_seconds;        // First step's start to last step's end.
  std::optional<double> examples_per_second;  // examples / train_seconds
  std::optional<double> final_loss;           // Of the last step.
  std::optional<double> test_loss;            // Of the last evaluation.
  std::optional<double> test_accuracy;
  std::optional<std::string> checkpoint;          // Path of the newest one.
  std::optional<std::string> checkpoint_failure;  // Why none could be made after it.
};

std::string SummaryJson(const Summary& summary);

// summary.json in `directory`, at once.
absl::Status WriteSummary(FileSystem* file_system, const std::string& directory,
                          const Summary& summary);

// NotFound where there is none.
absl::StatusOr<Summary> ReadSummary(FileSystem* file_system, const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_H_
