// Lets a chief that a scheduler started wait until the one before it has released the run's
// directory.
#ifndef SHOAL_CHIEF_AWAIT_DIRECTORY_H_
#define SHOAL_CHIEF_AWAIT_DIRECTORY_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/process/run_lock.h"

namespace shoal {

struct TaskOptions;

// Takes the chief's lock on `options.run.out()`, which must exist. Another chief may hold it that
// still writes its last checkpoint, or whose host is gone, or the file system may fail for a while;
// the function waits for this lock up to `cluster.wait_seconds`. Every `log_every` it logs who
// holds the lock, since when, or what fails, and how long it will wait. The task's pages show who
// holds it. Returns UNAVAILABLE if the lock cannot be taken then, CANCELLED if shutdown was
// requested, and the other errors of RunLock::Acquire.
absl::StatusOr<RunLock> AwaitDirectory(const TaskOptions& options,
                                       absl::Duration log_every = absl::Seconds(10));

}  // namespace shoal

#endif  // SHOAL_CHIEF_AWAIT_DIRECTORY_H_
