// Exit codes are an interface for launchers and schedulers. 0 means done. 2, 64, 65 and 78 are
// permanent: a restart cannot help. 1 is an error of unknown kind, after which the launcher
// restarts the task within its limits. After a code of 128 or above, a restart helps.
#ifndef SHOAL_RUNTIME_PROCESS_EXIT_CODE_H_
#define SHOAL_RUNTIME_PROCESS_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum ExitCode : int {
  kExitDone = 0,
  kExitInternalError = 1,  // Also if a GPU has no room left, or the disk before the run has begun.
  kExitUsage = 2,          // Unknown command.
  kExitBadFlags = 64,      // EX_USAGE: a flag, a field or a combination of them is wrong.
  kExitBadData = 65,       // EX_DATAERR: data files or checkpoints are damaged.
  // EX_CONFIG: the configuration does not fit the environment (another model or run, a missing or
  // forbidden file or directory, a port or directory in use, too little memory for a ps), or the
  // training diverges.
  kExitBadConfig = 78,
  kExitInterrupted = 130,  // Ended by SIGINT, after a checkpoint.
  kExitRestartMe = 138,    // Fenced, or a peer was lost: restart this task.
  kExitTerminated = 143,   // Ended by SIGTERM, after a checkpoint.
};

// Returns the exit code for a task's result, for all programs:
//   OK 0; InvalidArgument, OutOfRange 64; DataLoss 65; NotFound, PermissionDenied,
//   FailedPrecondition, AlreadyExists 78; Aborted (fenced), Unavailable, DeadlineExceeded 138;
//   Cancelled 143; everything else 1.
int ToExitCode(const absl::Status& status);

// Returns whether a task that ended with the code would fail in the same way after a restart: 2,
// 64, 65 and 78.
bool IsPermanentExitCode(int code);

// Returns the part of --help about exit codes, with a line for each of them. It says in short what
// docs/failure_model.md says.
absl::string_view ExitCodeHelp();

// Returns "done", "bad flags", ... for messages about children; "exit code 7" for unknown codes.
std::string DescribeExitCode(int code);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_EXIT_CODE_H_
