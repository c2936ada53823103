#ifndef SHOAL_DEPLOY_IN_PROCESS_CLUSTER_H_
#define SHOAL_DEPLOY_IN_PROCESS_CLUSTER_H_

#include <cstdint>

#include "absl/status/status.h"

#include "runtime/task/task_options.h"

namespace shoal {

// Runs chief, one parameter server and one worker as objects of this process (num_ps_tasks=0), with
// the same ledger, checkpoints, metrics and errors as a cluster, but without sockets. See
// Chief::Wait for the result.
absl::Status RunLocal(const TaskOptions& options);

// The same with any number of parameter servers and workers (each on a thread), so that a whole
// cluster can be tested without sockets and processes.
absl::Status RunInProcess(const TaskOptions& options, uint32_t num_ps_tasks, uint32_t num_workers);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_IN_PROCESS_CLUSTER_H_
