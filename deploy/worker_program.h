// A program with a model of its own (worker/main.h), as seen by who starts it.
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

// Asks the run's worker_binary what it would train: starts it once, with `declare`. Nothing of the
// run is started or written. Errors are one line each: NotFound, PermissionDenied: no program
// there; FailedPrecondition: it dies, does not end in time, is no worker program, or speaks
// another protocol; Cancelled: shutdown was requested, and the program is ended; and what the
// program itself says of the run and its data, with its code.
absl::StatusOr<v1::WorkerProgram> AskWorkerProgram(const v1::RunConfig& run,
                                                   FileSystem* file_system,
                                                   const ShutdownNotification& shutdown,
                                                   absl::Duration timeout = absl::Minutes(5));

// Turns this process into `path args...`; returns only if it cannot. FailedPrecondition: the path
// is this very program.
absl::Status BecomeProgram(const std::string& path, absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_WORKER_PROGRAM_H_
