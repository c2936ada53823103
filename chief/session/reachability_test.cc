#include "chief/session/reachability.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

class ReachabilityTest : public ::testing::Test {
 protected:
  Reachability reachability_{absl::Seconds(10)};
};

TEST_F(ReachabilityTest, AWorkerThatAloneDoesNotReachAPsLosesItsPlaceAfterALease) {
  const std::vector<uint32_t> workers = {0, 1};
  reachability_.OnReport(At(0), 0, {}, true);
  reachability_.OnReport(At(0), 1, {1}, false);
  EXPECT_THAT(reachability_.Judge(At(9), workers), IsEmpty());
  const auto verdicts = reachability_.Judge(At(10), workers);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_FALSE(verdicts[0].is_about_ps);
  EXPECT_EQ(verdicts[0].worker, 1u);
  EXPECT_EQ(verdicts[0].ps, 1u);
  EXPECT_EQ(verdicts[0].silence, absl::Seconds(10));
}

TEST_F(ReachabilityTest, ASilenceThatWasInterruptedBeginsAnew) {
  reachability_.OnReport(At(0), 1, {1}, false);
  reachability_.OnReport(At(8), 1, {}, true);
  reachability_.OnReport(At(9), 1, {1}, false);
  EXPECT_THAT(reachability_.Judge(At(18), {0, 1}), IsEmpty());
  reachability_.ForgetPs(1);  // It was started again.
  reachability_.OnReport(At(18), 1, {1}, false);
  EXPECT_THAT(reachability_.Judge(At(27), {0, 1}), IsEmpty());
  EXPECT_THAT(reachability_.Judge(At(28), {0, 1}), SizeIs(1));
}

TEST_F(ReachabilityTest, AReturningWorkerGetsNoWorkBeforeItHasReachedAllPs) {
  EXPECT_TRUE(reachability_.MayWork(1));
  reachability_.OnReport(At(0), 1, {0}, false);
  EXPECT_THAT(reachability_.Judge(At(10), {0, 1}), SizeIs(1));
  EXPECT_FALSE(reachability_.MayWork(1));
  EXPECT_FALSE(reachability_.OnReport(At(12), 1, {0}, false));
  // It has no work, so the run does not wait for it and it is not judged.
  EXPECT_THAT(reachability_.Judge(At(60), {0}), IsEmpty());
  EXPECT_FALSE(reachability_.OnReport(At(61), 1, {}, false));
  EXPECT_FALSE(reachability_.MayWork(1));
  EXPECT_TRUE(reachability_.OnReport(At(62), 1, {}, true));
  EXPECT_TRUE(reachability_.MayWork(1));
  EXPECT_FALSE(reachability_.OnReport(At(63), 1, {}, true));
}

TEST_F(ReachabilityTest, APsThatMostWorkersDoNotReachIsStartedAgainOnce) {
  for (const std::vector<uint32_t>& workers : {std::vector<uint32_t>{0}, {0, 1}, {0, 1, 2}}) {
    Reachability reachability{absl::Seconds(10)};
    const auto report = [&](double seconds) {
      for (const uint32_t worker : workers) {
        const bool silent = worker < 2;
        reachability.OnReport(At(seconds), worker,
                              silent ? std::set<uint32_t>{1} : std::set<uint32_t>{}, !silent);
      }
    };
    report(0);
    const auto verdicts = reachability.Judge(At(10), workers);
    ASSERT_THAT(verdicts, SizeIs(1)) << workers.size();
    EXPECT_TRUE(verdicts[0].is_about_ps);
    EXPECT_EQ(verdicts[0].ps, 1u);
    EXPECT_TRUE(reachability.MayWork(0));
    // Its next process is not reached either. Workers that others are better than lose their
    // places.
    reachability.ForgetPs(1);
    report(20);
    EXPECT_THAT(reachability.Judge(At(40), workers), SizeIs(workers.size() == 3 ? 2 : 0));
    // When all have reached it, it counts again.
    for (const uint32_t worker : workers) reachability.OnReport(At(41), worker, {}, true);
    report(42);
    const auto again = reachability.Judge(At(52), workers);
    ASSERT_THAT(again, SizeIs(1));
    EXPECT_TRUE(again[0].is_about_ps);
  }
}

}  // namespace
}  // namespace shoal
