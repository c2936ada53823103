// A worker as `shoal worker` runs it.
#ifndef SHOAL_DEPLOY_WORKER_COMMAND_H_
#define SHOAL_DEPLOY_WORKER_COMMAND_H_

#include "absl/status/status.h"

#include "runtime/task/task_options.h"

namespace shoal {

// RunWorker; worker 0 of a cluster that names no chief (TaskOptions::hosts_chief) runs the chief
// beside itself, in this process: the other tasks find it at this worker's address. Then the first
// signal stops the run, as it does for a chief, and the run's error is the one returned.
absl::Status RunWorkerAndHostedChief(const TaskOptions& options);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_WORKER_COMMAND_H_
