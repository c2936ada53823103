// Child processes that never outlive their parent.
#ifndef SHOAL_RUNTIME_PROCESS_CHILD_H_
#define SHOAL_RUNTIME_PROCESS_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/unique_fd.h"

namespace shoal {

// The end of a process.
struct ChildExit {
  bool by_signal = false;
  int number = 0;  // The signal, or the exit code.
  // False: the system did not keep how it ended (see KeepEndsOfChildren). Counts as an error.
  bool is_known = true;

  // Returns the end that waitpid reports in `status`.
  static ChildExit FromStatus(int status);
  static ChildExit Unknown();

  bool ok() const { return !by_signal && number == 0; }
  // Returns whether it ended by itself, with an exit code that is known.
  bool has_code() const { return is_known && !by_signal; }
  // Returns the status code that maps to the same exit code. For a signal it is Internal after a
  // crash, and Unavailable ("restart me") if another process sent the signal.
  absl::StatusCode status_code() const;
  // Returns whether it died of SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT. The process caused these
  // itself, so the batch that it was computing is suspect.
  bool crashed() const;
  // Returns whether it ended by itself in a way that a restart does not mend: IsPermanentExitCode.
  bool is_permanent() const;
  // Returns text such as "killed by SIGKILL" or "exit code 64 (bad flags)".
  std::string Describe() const;
};

struct ChildOptions {
  std::string name;               // For messages: "ps/0".
  std::vector<std::string> args;  // args[0] is the program's path.
  // Standard output and error are appended to this file; empty: they are inherited.
  std::string log_file;
  bool reports_address = false;  // Adds --report_fd=FD to the arguments; see report_address.h.
};

// One child process. It has its own process group, so that the terminal's Ctrl-C does not reach it.
// It gets the flag --parent_pid, with which its main calls DieWithParent. Start children from a
// thread that lives as long as they should, because Linux ties them to the thread, not to the
// process. Not thread-safe.
class Child {
 public:
  static absl::StatusOr<std::unique_ptr<Child>> Start(const ChildOptions& options);

  // Kills the child's group, if the child still runs, and waits for PatienceAfterKill.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const std::string& name() const { return name_; }
  pid_t pid() const { return pid_; }

  // Waits for the address that the child reports.
  absl::StatusOr<std::string> WaitForAddress(absl::Duration timeout);

  // Returns how the child ended; nothing while it runs. Never blocks.
  std::optional<ChildExit> Poll();
  // The same, but waits up to `timeout` for the end.
  std::optional<ChildExit> WaitFor(absl::Duration timeout);

  // Signals only the child, not its group. Has no effect once it has ended.
  void Signal(int signal);
  // Sends SIGKILL to the child's whole group.
  void Kill();
  // Returns how much longer to wait for the end of a child that was killed: until ten seconds after
  // the first Kill, and for ever if there was none. A process that hangs in a call of a file system
  // may never end, but it executes nothing of its program any more.
  absl::Duration PatienceAfterKill() const;

 private:
  Child(std::string name, pid_t pid, UniqueFd report)
      : name_(std::move(name)), pid_(pid), report_(std::move(report)) {}

  const std::string name_;
  const pid_t pid_;
  const RealClock clock_;
  UniqueFd report_;
  absl::Time killed_ = absl::InfiniteFuture();
  std::optional<ChildExit> exit_;
};

// Has the kernel keep how a child ended until this process waits for it. A process whose parent
// ignores SIGCHLD (a shell after `trap '' CHLD`, a daemon) ignores it as well, and would not learn
// how its children end. For main, before the first child starts.
void KeepEndsOfChildren();

// Makes the kernel kill this process when its parent dies. If the parent has died already (it is no
// longer `parent_pid`), exits. For the main function of a child.
void DieWithParent(pid_t parent_pid);

// Returns the path of this program, to start it again.
absl::StatusOr<std::string> OwnProgramPath();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_CHILD_H_
