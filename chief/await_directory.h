// A chief that a scheduler started waits for the one before it to let go of the run's directory.
#ifndef SHOAL_CHIEF_AWAIT_DIRECTORY_H_
#define SHOAL_CHIEF_AWAIT_DIRECTORY_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "runtime/process/run_lock.h"

namespace shoal {

struct TaskOptions;

// Takes the chief's lock on `options.run.out()`, which must exist. One that is held, by a chief
// that still writes its last checkpoint or on a host that is gone, is waited for up to
// `cluster.wait_seconds`; every `log_every` the log tells who holds it, since when, and until when
// this waits, and the task's pages show it. UNAVAILABLE: still held then. CANCELLED: shutdown was
// requested. Other errors as RunLock::Acquire.
absl::StatusOr<RunLock> AwaitDirectory(const TaskOptions& options,
                                       absl::Duration log_every = absl::Seconds(10));

}  // namespace shoal

#endif  // SHOAL_CHIEF_AWAIT_DIRECTORY_H_
