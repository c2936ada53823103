// Exit codes: an interface for launchers and schedulers. 0 is done, 1 to 127 are permanent, 128 and
// above are worth another try.
#ifndef SHOAL_RUNTIME_PROCESS_EXIT_CODE_H_
#define SHOAL_RUNTIME_PROCESS_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum ExitCode : int {
  kExitDone = 0,
  kExitInternalError = 1,  // Also: the machine refused (no memory, disk full).
  kExitUsage = 2,          // The command line: unknown command.
  kExitBadFlags = 64,      // EX_USAGE: a flag, a field or a combination of them is wrong.
  kExitBadData = 65,       // EX_DATAERR: data files or checkpoints are damaged.
  kExitBadConfig = 78,  // EX_CONFIG: what was given does not fit what is there (other model, other
                        // run, a file or directory that is missing or not permitted, a port or
                        // directory that is in use).
  kExitInterrupted = 130,  // SIGINT, after a checkpoint.
  kExitRestartMe = 138,    // Fenced, or a peer was lost for good: start this task again.
  kExitTerminated = 143,   // SIGTERM, after a checkpoint.
};

// The one place that turns a task's result into its exit code:
//   OK 0; InvalidArgument, OutOfRange 64; DataLoss 65; NotFound, PermissionDenied,
//   FailedPrecondition, AlreadyExists 78; Aborted (fenced), Unavailable, DeadlineExceeded 138;
//   Cancelled 143; everything else 1.
int ExitCodeOf(const absl::Status& status);

// "done", "bad flags", ...: for messages about children. "exit code 7" for unknown ones.
std::string DescribeExitCode(int code);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_EXIT_CODE_H_
