// Says where the tasks of a launcher run: on this machine by default.
#ifndef SHOAL_DEPLOY_LAUNCH_TASK_PLACES_H_
#define SHOAL_DEPLOY_LAUNCH_TASK_PLACES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "runtime/cluster/task.h"

namespace shoal {

class FileSystem;

class TaskPlaces {
 public:
  virtual ~TaskPlaces() = default;

  // Called once, when the run's directory exists and before the first task starts.
  virtual absl::Status Prepare(FileSystem* file_system) const = 0;
  // host:0 there, as others can dial it.
  virtual std::string ListenAddress(TaskId task) const = 0;
  // The number of a worker among those of its host, from 0.
  virtual uint32_t LocalIndex(TaskId worker) const = 0;
  // The command of this machine that runs `args` there, in place of them. `again`: it has run.
  virtual std::vector<std::string> Command(TaskId task, bool again, const std::string& log_file,
                                           const std::vector<std::string>& args) const = 0;
  // Describes the place in messages: "on beta".
  virtual std::string Describe(TaskId task) const = 0;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_TASK_PLACES_H_
