// Starts the tasks of `shoal launch` on other machines with the OpenSSH client of this one.
#ifndef SHOAL_DEPLOY_HOSTS_SSH_PLACES_H_
#define SHOAL_DEPLOY_HOSTS_SSH_PLACES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "deploy/hosts/host_file.h"
#include "deploy/launch/task_places.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

struct TaskFlags;

// Immutable.
class SshPlaces : public TaskPlaces {
 public:
  struct Options {
    std::string program;           // Path of this program, here and on every host.
    std::vector<std::string> ssh;  // The client with its options: SshClient().
    std::string ssh_config;        // The client's configuration; empty: its default.
    std::string directory;         // Tasks' working directory; the launcher's own.
    // Path of a file in the run's directory that contains `launch`; a host that reads this text
    // sees the same directory.
    std::string launch_file;
    std::string launch;
    absl::Duration grace;      // The longest time for tasks to end after a stop: StopTimes::drain.
    std::string run_file;      // A file in the run's directory.
    std::string program_hash;  // HashOfProgram; empty: the run has no compute program.
  };

  // Reads the flags of `shoal launch`. INVALID_ARGUMENT: the file of --hosts is wrong, or the run
  // does not fit it. PERMISSION_DENIED: plaintext between machines without --insecure. NOT_FOUND:
  // the run's compute program cannot be read.
  static absl::StatusOr<std::unique_ptr<TaskPlaces>> Create(const TaskFlags& flags,
                                                            const v1::RunConfig& run,
                                                            const std::string& working_directory);

  SshPlaces(Options options, std::vector<HostLine> hosts, Placement placement)
      : options_(std::move(options)), hosts_(std::move(hosts)), placement_(std::move(placement)) {}

  // Also starts the run's compute program, if it has one, once on each host that has workers, to
  // see what it declares there (`shoal check_program`). Errors name the host.
  absl::Status Prepare(FileSystem* file_system,
                       const ShutdownNotification& shutdown) const override;
  std::string ListenAddress(TaskId task) const override;
  uint32_t LocalIndex(TaskId worker) const override {
    return placement_.LocalIndexOf(worker.index);
  }
  std::vector<std::string> Command(TaskId task, bool again, const std::string& log_file,
                                   const std::vector<std::string>& args) const override;
  std::string Describe(TaskId task) const override;

 private:
  absl::Status CheckProgram(FileSystem* file_system, const ShutdownNotification& shutdown) const;

  const Options options_;
  const std::vector<HostLine> hosts_;
  const Placement placement_;
};

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_SSH_PLACES_H_
