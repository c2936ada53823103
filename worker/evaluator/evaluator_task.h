// The evaluator: a task beside a run that evaluates its checkpoints as they appear. The run does
// not know about it.
#ifndef SHOAL_WORKER_EVALUATOR_EVALUATOR_TASK_H_
#define SHOAL_WORKER_EVALUATOR_EVALUATOR_TASK_H_

#include <optional>

#include "absl/status/status.h"

#include "runtime/observability/summary.h"
#include "runtime/task/task_options.h"
#include "worker/replica/model_factory.h"

namespace shoal {

// Evaluates the newest valid checkpoint of the run in `options.run.out()` on the test split, then
// the one that is the newest by then, and so on, and appends the results to an EvaluationLog. It
// reads the run's files and writes none of them. It waits for a run that has not begun, and for a
// stopped run until it is resumed. Returns OK when the run has finished and its last checkpoint is
// evaluated, CANCELLED when this task is asked to stop, UNAVAILABLE when there was no sign of the
// run for cluster.wait_seconds and neither a launcher nor a chief holds its directory.
absl::Status RunEvaluator(const TaskOptions& options, const ModelFactory& model);
// The same with the model of the run file.
absl::Status RunEvaluator(const TaskOptions& options);

// Returns whether the summary says that the run has finished, at a step or epoch at which `run`
// ends as well. A run that was resumed with a higher max_steps or num_epochs has not: its summary
// is that of an earlier end until the new one comes.
bool IsRunFinished(const Summary& summary, const v1::RunConfig& run);

// Returns the summary of the run in `run.out()` if it ended before the end that `run` asks for and
// no later start has resumed it: the run waits to be resumed.
std::optional<Summary> SummaryOfEarlierEnd(const v1::RunConfig& run);

}  // namespace shoal

#endif  // SHOAL_WORKER_EVALUATOR_EVALUATOR_TASK_H_
