// Turns a run's plan and metrics into progress that people watch.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRICS_PROGRESS_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRICS_PROGRESS_H_

#include <cstdint>
#include <string>

#include "runtime/observability/metrics_file.h"
#include "runtime/observability/progress.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// `last_step`: at which the run ends; UINT64_MAX: it is not known. `num_epochs` 0: as many as the
// steps make.
ProgressPlan ProgressPlanOf(const StepPlan& steps, uint64_t last_step, uint32_t num_epochs);

// Adds the step to the bar and, if it was evaluated, says the result in a line of its own.
void ShowStep(const StepMetrics& step, ProgressReporter* progress);

// Returns the warning that is shown once when checkpoints begin to fail; `why` names the step.
std::string CheckpointWarning(const std::string& why);

// The same when lines of metrics.jsonl begin to wait.
std::string MetricsWarning(const std::string& why);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRICS_PROGRESS_H_
