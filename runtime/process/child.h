// Child processes that never outlive their parent.
#ifndef SHOAL_RUNTIME_PROCESS_CHILD_H_
#define SHOAL_RUNTIME_PROCESS_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/unique_fd.h"

namespace shoal {

// How a process ended.
struct ChildExit {
  bool by_signal = false;
  int number = 0;  // The signal, or the exit code.

  bool ok() const { return !by_signal && number == 0; }
  // The code of a status that ends this process with the same exit code. Of a signal:
  // Internal for a crash; Unavailable, "start me again", for one that somebody sent.
  absl::StatusCode status_code() const;
  // SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT: of its own making, so what it computed is suspect.
  bool crashed() const;
  // "killed by SIGKILL", "exit code 64 (bad flags)".
  std::string Describe() const;
};

struct ChildOptions {
  std::string name;               // For messages: "ps/0".
  std::vector<std::string> args;  // args[0] is the program's path.
  std::string log_file;           // Standard output and error are appended; empty: inherited.
  bool reports_address = false;   // Adds --report_fd=FD to the arguments; see report_address.h.
};

// One child, in a process group of its own, so that the terminal's Ctrl-C does not reach it. It is
// told
// --parent_pid, with which its main calls DieWithParent. Start children from a thread that lives as
// long as they should: Linux ties them to the thread, not to the process. Not thread safe.
class Child {
 public:
  static absl::StatusOr<std::unique_ptr<Child>> Start(const ChildOptions& options);

  // Kills the child's group and waits for it, if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }

  // The address it reported.
  absl::StatusOr<std::string> WaitForAddress(absl::Duration timeout);

  // How it ended, once it has. Never blocks.
  absl::optional<ChildExit> Poll();
  // The same, but waits up to `timeout`.
  absl::optional<ChildExit> WaitFor(absl::Duration timeout);

  // Signals the child alone; does nothing once it has ended.
  void Signal(int signal);
  // SIGKILL to its whole group.
  void Kill();

 private:
  Child(std::string name, pid_t pid, UniqueFd report)
      : name_(std::move(name)), pid_(pid), report_(std::move(report)) {}

  const std::string name_;
  const pid_t pid_;
  UniqueFd report_;
  absl::optional<ChildExit> exit_;
};

// For main of a child: the kernel kills this process when its parent dies, and if that has happened
// already (the parent is no longer `parent_pid`) it exits here.
void DieWithParent(pid_t parent_pid);

// The path of this program, to start it again.
absl::StatusOr<std::string> OwnProgramPath();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_CHILD_H_
