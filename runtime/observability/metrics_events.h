// Writes the contents of metrics.jsonl as event files for TensorBoard.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRICS_EVENTS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRICS_EVENTS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "runtime/observability/event_file.h"
#include "runtime/observability/metrics_file.h"

namespace shoal {

// Two runs in TensorBoard's sense, so that it draws them over each other:
//   train    loss, accuracy, learning_rate, examples_per_second, staleness, metrics by name
//   test     loss, accuracy, metrics by name
// Not thread-safe.
class MetricsEvents {
 public:
  // `directory` gets `train` and `test`. Records the first step, each step whose number `every`
  // divides, and all steps that were evaluated. every > 0. Pointers are borrowed.
  MetricsEvents(FileSystem* file_system, const Clock* clock, const std::string& directory,
                uint64_t every);

  // Writes the point at once. For errors see EventFile.
  absl::Status Record(const StepMetrics& metrics);

  // After a rollback: the next steps replace those that were recorded before.
  void GoBack();

  absl::Status Flush();

 private:
  const uint64_t every_;
  uint64_t last_ = 0;  // the last step that was recorded
  EventFile train_;
  EventFile test_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRICS_EVENTS_H_
