// The entry point of a ps task; see runtime/task/task_options.h.
#ifndef SHOAL_PS_PS_TASK_H_
#define SHOAL_PS_PS_TASK_H_

#include "absl/status/status.h"

namespace shoal {

struct TaskOptions;

// Serves until the run is over or this task is asked to end. Returns OK if the run is over, also if
// it has ended without this ps, CANCELLED if this task was asked to end, and otherwise the error of
// ParameterServer::Start or Wait.
absl::Status RunPs(const TaskOptions& options);

}  // namespace shoal

#endif  // SHOAL_PS_PS_TASK_H_
