#ifndef SHOAL_DEPLOY_LAUNCH_TASK_LOGS_H_
#define SHOAL_DEPLOY_LAUNCH_TASK_LOGS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "runtime/cluster/task.h"

namespace shoal {

// The logs of the tasks that a launcher starts: their paths below the run's directory, and what
// their ends say about a task that has died. Thread-safe.
class TaskLogs {
 public:
  explicit TaskLogs(std::string run_directory) : run_directory_(std::move(run_directory)) {}

  std::string Path(TaskId task) const;
  // Returns the path of the output of a worker's compute program.
  std::string ProgramPath(TaskId worker) const;

  // Returns the last line, from byte `begin` on, with which the task's main reported its end,
  // without "shoal ps: " before it; empty if there is none.
  std::string LastWords(TaskId task, uint64_t begin) const;
  // Returns the last line, from byte `begin` on, in which a worker says that its compute program
  // continues after the run or was killed (program_words.h), without what comes before the
  // program's name; empty if there is none.
  std::string ProgramWords(TaskId worker, uint64_t begin) const;
  // Returns the last lines of the log; empty if there are none.
  std::string End(TaskId task) const;

 private:
  const std::string run_directory_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_TASK_LOGS_H_
