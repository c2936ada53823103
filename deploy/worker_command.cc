#include "deploy/worker_command.h"

#include <thread>

#include "base/log.h"
#include "base/status_macros.h"
#include "chief/chief_task.h"
#include "runtime/config/program_settings.h"
#include "runtime/process/shutdown.h"
#include "worker/program/program_inputs.h"
#include "worker/worker_task.h"

namespace shoal {

absl::Status RunWorkerAndHostedChief(const TaskOptions& options) {
  if (!options.hosts_chief) return RunWorker(options);
  TaskOptions chief_options = options;
  chief_options.task = TaskId{Job::kChief, 0};
  chief_options.chief_address.clear();
  // The chief receives the process's signals; the worker ends when the run, or the chief, does.
  ShutdownNotification worker_shutdown;
  TaskOptions worker_options = options;
  worker_options.shutdown = &worker_shutdown;
  worker_options.listen_address.clear();  // The chief serves there.

  absl::Status chief_status;
  std::thread chief([&] {
    chief_status = RunChief(chief_options);
    worker_shutdown.Request();
  });
  const absl::Status worker_status = RunWorker(worker_options);
  // A worker that ended by itself does not come back: its run ends too.
  if (!worker_status.ok() && !worker_shutdown.requested()) options.shutdown->Request();
  chief.join();
  // The run's outcome is the chief's, unless the chief stopped because of the worker.
  const bool run_failed = !chief_status.ok() && !absl::IsCancelled(chief_status);
  const bool worker_failed = !worker_status.ok() && !absl::IsCancelled(worker_status);
  return !run_failed && worker_failed ? worker_status : chief_status;
}

absl::Status CompleteByProgram(TaskOptions* options) {
  const bool plans_run = options->task.job == Job::kChief || options->hosts_chief;
  if (!plans_run || !options->given.has_value()) return absl::OkStatus();
  LOG(INFO) << "starts " << options->run.program().file()
            << " once to ask it for the settings that the run leaves to it";
  ASSIGN_OR_RETURN(const v1::WorkerProgram program,
                   AskProgram(options->run, HasTrained(options->run.out(), options->file_system)));
  ASSIGN_OR_RETURN(options->run, CompleteRun(options->run, *options->given, program.settings()));
  options->given.reset();
  return absl::OkStatus();
}

}  // namespace shoal
