// The evaluator: a task beside a run that evaluates its checkpoints as they appear. The run does
// not know of it.
#ifndef SHOAL_WORKER_EVALUATOR_EVALUATOR_TASK_H_
#define SHOAL_WORKER_EVALUATOR_EVALUATOR_TASK_H_

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "runtime/observability/summary.h"
#include "runtime/process/task_options.h"
#include "worker/model_factory.h"

namespace shoal {

// Evaluates the newest valid checkpoint of the run in `options.run.out()` on the test split, then
// the next one that is the newest by then, and appends what it finds to an EvaluationLog. Reads the
// run's files and writes none of them. Waits for a run that has not begun, and through its pauses.
// OK: the run has finished and its last checkpoint is evaluated. CANCELLED: told to stop.
absl::Status RunEvaluator(const TaskOptions& options, const ModelFactory& model);
// Evaluates the model of the run file.
absl::Status RunEvaluator(const TaskOptions& options);

// Returns whether the summary is of the end of this run, not of an earlier end that `run` goes
// beyond.
bool IsRunFinished(const Summary& summary, const v1::RunConfig& run);

// How the run in `run.out()` ended, if that was before `run` ends and no later start goes on from
// there: the run waits to be resumed.
absl::optional<Summary> EndBeforeThis(const v1::RunConfig& run);

}  // namespace shoal

#endif  // SHOAL_WORKER_EVALUATOR_EVALUATOR_TASK_H_
