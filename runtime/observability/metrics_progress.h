// Converts a run's plan and metrics into the progress that is shown to the user.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRICS_PROGRESS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRICS_PROGRESS_H_

#include <cstdint>
#include <string>

#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// `last_step` is the end of the run; UINT64_MAX if unknown. `num_epochs` 0 means as many as the
// steps make.
ProgressPlan MakeProgressPlan(const StepPlan& steps, uint64_t last_step, uint32_t num_epochs);

// Returns the line that is shown when a run resumes from the checkpoint `name` of `step`. `newest`
// is the last step that it had reached: those in between are computed again.
std::string ResumeText(uint64_t step, const std::string& name, uint64_t newest);

// The same for a run that goes back to its last checkpoint, or to its start, while it trains.
std::string RollbackText(uint64_t step, uint64_t newest, const std::string& reason);

// Adds the step to the bar and, if it was evaluated, prints a line with the result.
void ShowStep(const StepMetrics& step, ProgressReporter* progress);

// Returns the warning that is shown once when checkpoints begin to fail; `why` names the step.
std::string CheckpointWarning(const std::string& why);

// The same for lines of metrics.jsonl that cannot be written.
std::string MetricsWarning(const std::string& why);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRICS_PROGRESS_H_
