// Starts a compute program and connects it with its worker.
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_PROCESS_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/unique_fd.h"
#include "worker/program/process_group.h"
#include "worker/program/program_channel.h"

namespace shoal {

// The process has its own process group, which is killed when this process ends. The kernel kills
// the process itself when the thread that started it ends: start it from a thread that lives as
// long as it should. It begins with SIGTERM, SIGINT and SIGHUP ignored, because schedulers send
// them to all processes of a run, which then makes a last checkpoint.
class ProgramProcess : public ProgramChannel {
 public:
  struct Options {
    // args[0] is the program. A name without a slash is searched in PATH.
    std::vector<std::string> args;
    // Receive what it writes to standard output and to standard error; empty: this process's
    // standard error does.
    std::string output_file;
    std::string log_file;
    std::vector<std::pair<std::string, std::string>> environment;  // Replaces what it inherits.
    int parameters_fd = -1;                                        // The program inherits both.
    int contributions_fd = -1;
    // Ends the error of a program that the system does not find or does not execute.
    std::string remedy;
    // The longest time that the system may take to execute it; a file system may not answer.
    absl::Duration patience = absl::Minutes(1);
    const Clock* clock = nullptr;  // Borrowed; must outlive the process.
  };
  // NotFound, PermissionDenied or FailedPrecondition names the program that cannot be started;
  // Unavailable, what the system lacks at the moment; DeadlineExceeded, a program that is not
  // executed in time.
  static absl::StatusOr<std::unique_ptr<ProgramProcess>> Start(const Options& options);

  // Kills the program's process group if it still runs.
  ~ProgramProcess() override;

  pid_t pid() const { return pid_; }

  Event Wait(absl::Time deadline, std::string* output, std::string* input) override;
  bool AwaitEnd(absl::Time deadline) override;
  ProgramEnd End(absl::Time deadline) override;

 private:
  ProgramProcess(pid_t pid, UniqueFd process, UniqueFd socket, std::unique_ptr<ProcessGroup> group,
                 const Clock* clock)
      : pid_(pid),
        process_(std::move(process)),
        socket_(std::move(socket)),
        group_(std::move(group)),
        clock_(clock) {}

  void Send(std::string* output) const;
  // Returns nullopt if there is nothing to read now.
  std::optional<Event> Read(std::string* input);

  const pid_t pid_;
  const UniqueFd process_;  // pidfd; readable once the process has ended.
  const UniqueFd socket_;
  const std::unique_ptr<ProcessGroup> group_;
  const Clock* const clock_;
  std::vector<char> buffer_ = std::vector<char>(64 << 10);
  std::optional<ProgramEnd> end_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_PROCESS_H_
