#include "chief/session/checkpoint_watch.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

class CheckpointWatchTest : public ::testing::Test {
 protected:
  static CheckpointWatch WatchOf(uint64_t every_steps, absl::Duration every) {
    CheckpointWatch::Options options;
    options.every_steps = every_steps;
    options.every = every;
    return CheckpointWatch(options);
  }
  const absl::Time start_ = absl::FromUnixSeconds(1000);
};

TEST_F(CheckpointWatchTest, TwiceTheStepsWithoutOneAreTooMany) {
  CheckpointWatch watch = WatchOf(100, absl::InfiniteDuration());
  EXPECT_FALSE(watch.IsOverdue(start_, 1000)) << "training has not begun";
  watch.Restart(start_, 0);
  const absl::Time later = start_ + absl::Minutes(5);
  EXPECT_FALSE(watch.IsOverdue(later, 199));
  EXPECT_TRUE(watch.IsOverdue(later, 200));
  watch.Restart(later, 190);
  EXPECT_FALSE(watch.IsOverdue(later + absl::Minutes(5), 389));
  EXPECT_TRUE(watch.IsOverdue(later + absl::Minutes(5), 390));
}

TEST_F(CheckpointWatchTest, TwiceTheTimeWithoutOneIsTooLong) {
  CheckpointWatch watch = WatchOf(0, absl::Minutes(5));
  watch.Restart(start_, 7);
  EXPECT_FALSE(watch.IsOverdue(start_ + absl::Minutes(9), 50));
  EXPECT_TRUE(watch.IsOverdue(start_ + absl::Minutes(10), 50));
  EXPECT_FALSE(watch.IsOverdue(start_ + absl::Minutes(10), 7)) << "there is nothing to save";
}

TEST_F(CheckpointWatchTest, NeitherAFastNorASlowRunAlarms) {
  CheckpointWatch fast = WatchOf(1, absl::InfiniteDuration());
  fast.Restart(start_, 0);
  EXPECT_FALSE(fast.IsOverdue(start_ + absl::Seconds(59), 100000));
  CheckpointWatch slow = WatchOf(1000, absl::Minutes(5));
  slow.Restart(start_, 0);
  EXPECT_FALSE(slow.IsOverdue(start_ + absl::Hours(1), 3)) << "it is at the step before its cut";
}

TEST_F(CheckpointWatchTest, WithoutAScheduleNothingIsDue) {
  CheckpointWatch watch = WatchOf(0, absl::InfiniteDuration());
  watch.Restart(start_, 0);
  EXPECT_FALSE(watch.IsOverdue(start_ + absl::Hours(1000), 1000000));
}

}  // namespace
}  // namespace shoal
