#ifndef SHOAL_RUNTIME_TASK_RESOLVE_TASK_H_
#define SHOAL_RUNTIME_TASK_RESOLVE_TASK_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "runtime/cluster/environment.h"
#include "runtime/cluster/task.h"
#include "runtime/config/validate.h"
#include "runtime/task/task_options.h"

namespace shoal {

struct CommandLine;

// The facts about a task's process that are not in its flags.
struct Surroundings {
  std::string working_directory;  // Makes `run.out` absolute.
  std::string hostname;
  Environment environment;
};

// Turns a command line into the options of its task: determines the task's identity, its listen
// address, the chief's address, and the resolved and validated run. Leaves borrowed pointers null,
// and reads nothing but its arguments.
absl::StatusOr<TaskOptions> ResolveTask(const std::optional<Job>& command, const CommandLine& line,
                                        const Surroundings& surroundings,
                                        ModelFrom model = ModelFrom::kRunFile);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_RESOLVE_TASK_H_
