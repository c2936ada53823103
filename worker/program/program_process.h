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

#include "base/unique_fd.h"
#include "worker/program/program_channel.h"

namespace shoal {

// The process has its own process group. The kernel kills it when the thread that started it ends:
// start it from a thread that lives as long as it should.
class ProgramProcess : public ProgramChannel {
 public:
  struct Options {
    std::vector<std::string> args;  // args[0] is the program, searched in PATH without a slash.
    std::string log_file;    // Receives its output; empty: this process's standard error does.
    int parameters_fd = -1;  // The program inherits both.
    int contributions_fd = -1;
  };
  // NotFound or PermissionDenied names the program that cannot be started.
  static absl::StatusOr<std::unique_ptr<ProgramProcess>> Start(const Options& options);

  // Kills the program's process group if it still runs.
  ~ProgramProcess() override;

  pid_t pid() const { return pid_; }

  Event Wait(absl::Time deadline, std::string* output, std::string* input) override;
  ChildExit End(absl::Time deadline) override;

 private:
  ProgramProcess(pid_t pid, UniqueFd process, UniqueFd socket)
      : pid_(pid), process_(std::move(process)), socket_(std::move(socket)) {}

  void Send(std::string* output) const;
  // Returns nullopt if there is nothing to read now.
  std::optional<Event> Read(std::string* input);

  const pid_t pid_;
  const UniqueFd process_;  // pidfd; readable once the process has ended.
  const UniqueFd socket_;
  std::vector<char> buffer_ = std::vector<char>(64 << 10);
  std::optional<ChildExit> exit_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_PROCESS_H_
