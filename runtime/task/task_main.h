// The main function of a task that was started by itself: `shoal ps|worker|chief`, `shoal task`,
// whose job a launcher's variables tell, and a worker with a model of its own. Turns the command
// line into TaskOptions, sets up log and signals, runs the role and turns its result into an exit
// code.
#ifndef SHOAL_RUNTIME_TASK_TASK_MAIN_H_
#define SHOAL_RUNTIME_TASK_TASK_MAIN_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "runtime/cluster/environment.h"
#include "runtime/config/validate.h"
#include "runtime/task/task_options.h"

namespace shoal {

struct CommandLine;

using RunTask = std::function<absl::Status(const TaskOptions&)>;

// `command` is the job that the command names; without one the launcher's variables or --job_name
// decide (`shoal task`), and `run` looks at TaskOptions::task. `args` is what follows the command's
// name. Blocks until the task has ended; returns its exit code. Errors go to standard error as one
// line, "shoal ps: --name: what is wrong; what to do". A worker's run file has the model, unless it
// is said to be elsewhere. `environment`: of the process, as main read it.
int TaskMain(const absl::optional<Job>& command, absl::Span<const std::string> args,
             const RunTask& run, ModelFrom model = ModelFrom::kRunFile,
             const Environment& environment = {});

// The surroundings of a task that flags do not give.
struct Surroundings {
  std::string working_directory;  // Makes `run.out` absolute.
  std::string hostname;
  Environment environment;
};

// The pure part: who this task is, where it serves, where the chief is, and the run, resolved and
// validated. Leaves what is borrowed null.
absl::StatusOr<TaskOptions> ResolveTask(const absl::optional<Job>& command, const CommandLine& line,
                                        const Surroundings& surroundings,
                                        ModelFrom model = ModelFrom::kRunFile);

// The usage text of a task's command.
std::string TaskHelp(const absl::optional<Job>& command);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_MAIN_H_
