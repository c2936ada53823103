// The entry point of a ps task; see runtime/task/task_options.h.
#ifndef SHOAL_PS_PS_TASK_H_
#define SHOAL_PS_PS_TASK_H_

#include "absl/status/status.h"

namespace shoal {

struct TaskOptions;

absl::Status RunPs(const TaskOptions& options);

}  // namespace shoal

#endif  // SHOAL_PS_PS_TASK_H_
