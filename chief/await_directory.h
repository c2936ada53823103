// Lets a chief that a scheduler started wait until the one before it has released the run's
// directory.
#ifndef SHOAL_CHIEF_AWAIT_DIRECTORY_H_
#define SHOAL_CHIEF_AWAIT_DIRECTORY_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/process/run_lock.h"

namespace shoal {

struct TaskOptions;

// Takes the chief's lock on the directory `options.run.out()`, which must exist. If it is not free,
// waits for it for at most `cluster.wait_seconds`: a chief that holds it may still be writing its
// last checkpoint, its host may be gone, or the file system may fail for a while. From 2 s on logs
// every `log_every` who holds the lock and since when, or what fails, and how long it will wait.
// The task's pages show who holds it. Returns UNAVAILABLE if the lock is not free after
// `cluster.wait_seconds`, CANCELLED if shutdown was requested, and the other errors of
// RunLock::Acquire.
absl::StatusOr<RunLock> AwaitDirectory(const TaskOptions& options,
                                       absl::Duration log_every = absl::Seconds(10));

}  // namespace shoal

#endif  // SHOAL_CHIEF_AWAIT_DIRECTORY_H_
