// A process group that ends with this process, however this process ends.
#ifndef SHOAL_WORKER_PROGRAM_PROCESS_GROUP_H_
#define SHOAL_WORKER_PROGRAM_PROCESS_GROUP_H_

#include <sys/types.h>

#include <memory>
#include <utility>

#include "absl/status/statusor.h"

#include "base/unique_fd.h"

namespace shoal {

// The leader of the group is a guard: a shell that waits for the end of a pipe that only this
// process holds, and then kills the group. As long as the guard is there, no other group can have
// its number. Not thread-safe.
class ProcessGroup {
 public:
  // Starts the guard. Returns UNAVAILABLE if the system lacks something now (passing_errors.h), and
  // a permanent error if there is no shell or it may not be executed.
  static absl::StatusOr<std::unique_ptr<ProcessGroup>> Start();
  // Kills the processes of the group.
  ~ProcessGroup() { Kill(); }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Returns the number that setpgid needs; valid until Kill.
  pid_t id() const { return guard_; }

  // Kills every process of the group and the guard. Only the first call has an effect.
  void Kill();

 private:
  ProcessGroup(pid_t guard, UniqueFd life) : guard_(guard), life_(std::move(life)) {}

  const pid_t guard_;
  const UniqueFd life_;  // The guard reads the other end.
  bool killed_ = false;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROCESS_GROUP_H_
