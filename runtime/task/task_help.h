#ifndef SHOAL_RUNTIME_TASK_TASK_HELP_H_
#define SHOAL_RUNTIME_TASK_TASK_HELP_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "runtime/cluster/task.h"

namespace shoal {

// Returns the word after `shoal` that starts this job: "ps", for example, or "task" for the command
// that leaves the job to --job_name or to a launcher's variables.
absl::string_view CommandName(const std::optional<Job>& command);

// Returns the usage text of a task's command.
std::string TaskHelp(const std::optional<Job>& command);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_HELP_H_
