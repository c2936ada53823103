// Explains to the user of a launcher how and why its tasks ended, from their exits and their logs.
#ifndef SHOAL_DEPLOY_LAUNCH_TASK_DEATHS_H_
#define SHOAL_DEPLOY_LAUNCH_TASK_DEATHS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"

#include "deploy/launch/program_failures.h"
#include "runtime/cluster/task.h"
#include "runtime/process/child.h"

namespace shoal {

class ProgressReporter;
class TaskLogs;
class TaskPlaces;

// The launcher decides what follows from a death; this class finds the words for it. `log_begin` is
// where the log of the process that ended begins in the log of its task. Not thread-safe.
class TaskDeaths {
 public:
  struct Options {
    // Borrowed.
    const TaskLogs* logs = nullptr;
    const TaskPlaces* places = nullptr;  // Null: the tasks run on this machine.
    ProgressReporter* progress = nullptr;
    bool has_programs = false;  // The workers have compute programs.
  };

  explicit TaskDeaths(Options options) : options_(std::move(options)) {}

  // Returns why the compute program of a worker failed, if that ended the worker.
  std::optional<ProgramFailure> FindProgramFailure(TaskId task, uint64_t log_begin) const;
  // Returns how the task ended: "exit code 1 (its program failed)", or as ChildExit describes it.
  std::string DescribeExit(TaskId task, uint64_t log_begin, const ChildExit& exit) const;
  // Notes the failure and returns "worker/0 died (HOW)", or why its program failed if that is new.
  std::string DiedText(TaskId worker, const ChildExit& exit,
                       const std::optional<ProgramFailure>& failure);
  // Returns the failures that DiedText has noted.
  const ProgramFailures& program_failures() const { return program_failures_; }

  // Returns the error of a run that this end makes fail. It quotes the last words of the task's
  // log. Cancelled: the task was stopped.
  absl::Status Failure(TaskId task, uint64_t log_begin, const ChildExit& exit) const;
  // The same, with this code.
  absl::Status Death(TaskId task, uint64_t log_begin, const ChildExit& exit,
                     absl::StatusCode code) const;
  // Prints the last lines of the log of a task that ran on another host and failed.
  void PrintLogEnd(TaskId task) const;

 private:
  const Options options_;
  ProgramFailures program_failures_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_TASK_DEATHS_H_
