// The main function of a single task: `shoal ps|worker|chief`, `shoal task` (the job comes from a
// launcher's environment variables), and a worker program with its own model. It turns the command
// line into TaskOptions, sets up log and signals, runs the role, and turns the result into an exit
// code.
#ifndef SHOAL_RUNTIME_TASK_TASK_MAIN_H_
#define SHOAL_RUNTIME_TASK_TASK_MAIN_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "runtime/cluster/environment.h"
#include "runtime/cluster/task.h"
#include "runtime/config/validate.h"
#include "runtime/task/task_options.h"

namespace shoal {

using RunTask = std::function<absl::Status(const TaskOptions&)>;

// Runs a task and returns its exit code. `command` is the job that the command names; without one
// (`shoal task`) the launcher's variables or --job_name decide, and `run` reads TaskOptions::task.
// `args` are the arguments after the command's name. Errors go to standard error as one line,
// "shoal ps: --name: what is wrong; what to do". `model` says whether the model is in the run file.
// `environment` is that of the process.
int TaskMain(const std::optional<Job>& command, absl::Span<const std::string> args,
             const RunTask& run, ModelFrom model = ModelFrom::kRunFile,
             const Environment& environment = {});

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_TASK_MAIN_H_
