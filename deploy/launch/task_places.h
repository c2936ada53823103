// Decides where the tasks of a launcher run. Without a TaskPlaces they run on this machine.
#ifndef SHOAL_DEPLOY_LAUNCH_TASK_PLACES_H_
#define SHOAL_DEPLOY_LAUNCH_TASK_PLACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "runtime/cluster/task.h"

namespace shoal {

class FileSystem;
class ShutdownNotification;

class TaskPlaces {
 public:
  virtual ~TaskPlaces() = default;

  // Called once, when the run's directory exists and before the first task starts. Cancelled: the
  // user asked to stop.
  virtual absl::Status Prepare(FileSystem* file_system,
                               const ShutdownNotification& shutdown) const = 0;
  // Returns the address at which the task listens, "HOST:0", where HOST is the name by which other
  // tasks reach the task's machine, and port 0 means any free port.
  virtual std::string ListenAddress(TaskId task) const = 0;
  // Returns the number of a worker among the workers of its host, from 0.
  virtual uint32_t LocalIndex(TaskId worker) const = 0;
  // Returns the command line to start on this machine so that the task's own command line, `args`,
  // runs at its place. The task's output goes to `log_file`. `again` is true if the task was
  // started before.
  virtual std::vector<std::string> Command(TaskId task, bool again, const std::string& log_file,
                                           const std::vector<std::string>& args) const = 0;
  // Describes the place in messages: "on beta".
  virtual std::string Describe(TaskId task) const = 0;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_TASK_PLACES_H_
