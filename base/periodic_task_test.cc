#include "base/periodic_task.h"

#include <optional>

#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "base/blocking_queue.h"
#include "base/fake_clock.h"

namespace shoal {
namespace {

TEST(PeriodicTaskTest, RunsOncePerPeriod) {
  FakeClock clock;
  BlockingQueue<absl::Time> runs(10);
  PeriodicTask task("test", absl::Minutes(1), clock, [&] { runs.Push(clock.Now()); });
  for (int i = 0; i < 3; ++i) {
    clock.Advance(absl::Seconds(59));
    EXPECT_EQ(runs.PopFor(absl::Milliseconds(3)), std::nullopt);
    clock.Advance(absl::Seconds(1));
    EXPECT_EQ(runs.Pop(), clock.Now());
  }
}

TEST(PeriodicTaskTest, TriggerRunsAtOnceAndStartsANewPeriod) {
  FakeClock clock;
  BlockingQueue<absl::Time> runs(10);
  PeriodicTask task("test", absl::Minutes(1), clock, [&] { runs.Push(clock.Now()); });
  clock.Advance(absl::Seconds(30));
  task.Trigger();
  EXPECT_EQ(runs.Pop(), clock.Now());
  clock.Advance(absl::Seconds(59));
  EXPECT_EQ(runs.PopFor(absl::Milliseconds(3)), std::nullopt);
}

TEST(PeriodicTaskTest, NothingRunsAfterStop) {
  FakeClock clock;
  int count = 0;
  PeriodicTask task("test", absl::Minutes(1), clock, [&] { ++count; });
  task.Stop();
  task.Stop();
  clock.Advance(absl::Hours(1));
  task.Trigger();
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace shoal
