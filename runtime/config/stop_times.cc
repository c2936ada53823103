#include "runtime/config/stop_times.h"

namespace shoal {

StopTimes ComputeStopTimes(const v1::RunConfig& run) {
  const absl::Duration grace = absl::Seconds(run.cluster().grace_seconds());
  StopTimes times;
  times.drain = grace;
  times.task_exit = grace + absl::Seconds(5);
  times.checkpoint = grace + absl::Seconds(10);
  times.chief_exit = grace + absl::Seconds(50);
  return times;
}

}  // namespace shoal
