// Starts programs with their own model (worker/main.h).
#ifndef SHOAL_DEPLOY_WORKER_PROGRAM_H_
#define SHOAL_DEPLOY_WORKER_PROGRAM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;
class ShutdownNotification;

// Asks the run's worker_binary for its model: starts it once, with `declare`. It starts no task and
// writes no file of the run. Errors have one line: NotFound or PermissionDenied if there is no
// program; Unavailable if the system cannot show or start it now; FailedPrecondition if it dies,
// does not end in time, is not a worker program, or has another protocol version; Cancelled if
// shutdown was requested, which ends the program; and the program's own errors about the run and
// its data.
absl::StatusOr<v1::WorkerProgram> AskWorkerProgram(const v1::RunConfig& run,
                                                   FileSystem* file_system,
                                                   const ShutdownNotification& shutdown,
                                                   absl::Duration timeout = absl::Minutes(5));

// Replaces this process by `path args...`; returns only on errors. FailedPrecondition: the path is
// this program itself. Unavailable: the system cannot start it now.
absl::Status BecomeProgram(const std::string& path, absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_WORKER_PROGRAM_H_
