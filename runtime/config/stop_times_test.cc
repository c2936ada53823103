#include "runtime/config/stop_times.h"

#include "gtest/gtest.h"

#include "runtime/config/run_config.h"

namespace shoal {
namespace {

TEST(StopTimesTest, ARunThatGivesNoGraceHasTenSeconds) {
  v1::RunConfig run;
  ResolveDefaults(TaskCounts(), &run);
  const StopTimes times = ComputeStopTimes(run);
  EXPECT_EQ(times.drain, absl::Seconds(10));
  EXPECT_EQ(times.task_exit, absl::Seconds(15));
  EXPECT_EQ(times.checkpoint, absl::Seconds(20));
  EXPECT_EQ(times.chief_exit, absl::Seconds(60));
}

TEST(StopTimesTest, AllFollowTheGraceAndTasksThatOthersNeedLeaveLater) {
  v1::RunConfig run;
  for (const uint32_t grace : {1u, 600u, 86400u}) {
    run.mutable_cluster()->set_grace_seconds(grace);
    const StopTimes times = ComputeStopTimes(run);
    EXPECT_EQ(times.drain, absl::Seconds(grace));
    EXPECT_LT(times.drain, times.task_exit);
    EXPECT_LT(times.task_exit, times.checkpoint) << "the chief outlasts those that it waits for";
    EXPECT_LT(times.checkpoint + absl::Seconds(10), times.chief_exit)
        << "ps are notified of the end";
  }
}

}  // namespace
}  // namespace shoal
