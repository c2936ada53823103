// The functions that `shoal worker` and `shoal task` run.
#ifndef SHOAL_DEPLOY_WORKER_COMMAND_H_
#define SHOAL_DEPLOY_WORKER_COMMAND_H_

#include "absl/status/status.h"

#include "runtime/task/task_options.h"

namespace shoal {

// Calls RunWorker. Worker 0 of a cluster without a chief (TaskOptions::hosts_chief) also runs the
// chief in this process; the other tasks find it at this worker's address. In this case the first
// signal stops the run, as it does for a chief, and the result is that of the run.
absl::Status RunWorkerAndHostedChief(const TaskOptions& options);

// Starts the compute program of the run once, if this task has the chief and the run leaves
// settings to the program, and completes `options->run` by them. The other tasks need no such
// start: a worker gets the settings from its own program, a ps from the chief.
absl::Status CompleteByProgram(TaskOptions* options);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_WORKER_COMMAND_H_
