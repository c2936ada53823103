#ifndef SHOAL_RUNTIME_TASK_CHIEF_SESSION_OPTIONS_H_
#define SHOAL_RUNTIME_TASK_CHIEF_SESSION_OPTIONS_H_

#include "runtime/rpc/chief_session.h"
#include "runtime/task/task_options.h"

namespace shoal {

// Returns how this task, a worker or a ps, registers with the chief; `address` and `is_over` are
// left to the caller.
ChiefSession::Options ChiefSessionOptionsFor(const TaskOptions& options);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_CHIEF_SESSION_OPTIONS_H_
