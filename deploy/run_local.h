#ifndef SHOAL_DEPLOY_RUN_LOCAL_H_
#define SHOAL_DEPLOY_RUN_LOCAL_H_

#include "absl/status/status.h"

#include "runtime/process/task_options.h"

namespace shoal {

// num_ps_tasks=0: chief, one parameter server and one worker as objects of this process, with the
// same ledger, checkpoints, metrics and errors as a cluster, and no sockets. See Chief::Wait for
// the result.
absl::Status RunLocal(const TaskOptions& options);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_RUN_LOCAL_H_
