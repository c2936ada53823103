#include "base/periodic_task.h"

#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/mutex.h"

namespace shoal {
namespace {

// Records the times at which a task ran.
class Runs {
 public:
  void Add(absl::Time time) {
    MutexLock lock(&mutex_);
    times_.push_back(time);
    changed_.NotifyAll();
  }
  // Waits until there are `count` runs, and returns all.
  std::vector<absl::Time> WaitFor(size_t count) {
    MutexLock lock(&mutex_);
    while (times_.size() < count) changed_.Wait(&mutex_);
    return times_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<absl::Time> times_ ABSL_GUARDED_BY(mutex_);
};

TEST(PeriodicTaskTest, RunsOncePerPeriod) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  Runs runs;
  PeriodicTask task("test", absl::Minutes(1), clock, [&] { runs.Add(clock.Now()); });
  for (size_t i = 1; i <= 3; ++i) {
    clock.Advance(absl::Seconds(59));
    clock.Advance(absl::Seconds(1));
    runs.WaitFor(i);
  }
  EXPECT_THAT(runs.WaitFor(3),
              testing::ElementsAre(start + absl::Minutes(1), start + absl::Minutes(2),
                                   start + absl::Minutes(3)));
}

TEST(PeriodicTaskTest, NothingRunsAfterStop) {
  FakeClock clock;
  int count = 0;
  PeriodicTask task("test", absl::Minutes(1), clock, [&] { ++count; });
  task.Stop();
  task.Stop();
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace shoal
