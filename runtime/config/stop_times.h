// The deadlines of a stop that follow from `cluster.grace_seconds`.
#ifndef SHOAL_RUNTIME_CONFIG_STOP_TIMES_H_
#define SHOAL_RUNTIME_CONFIG_STOP_TIMES_H_

#include "absl/time/time.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

// Times count from the request to end. A scheduler may signal all tasks at once, so each of them
// waits for the last checkpoint by itself, and a task that needs others waits longer than they do.
struct StopTimes {
  absl::Duration drain;       // ps, worker: when to leave without the checkpoint (10 s by default)
  absl::Duration task_exit;   // ps, worker: when to exit even if something hangs (15 s)
  absl::Duration checkpoint;  // chief: when to end without the last checkpoint (20 s)
  // Chief: when to exit even if something hangs, and when its launcher kills it (60 s).
  absl::Duration chief_exit;
};

// The longest time for a compute program to end after a run. No other task waits for it.
inline constexpr absl::Duration kProgramAfterRun = absl::Hours(1);

// The run must be resolved.
StopTimes ComputeStopTimes(const v1::RunConfig& run);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_STOP_TIMES_H_
