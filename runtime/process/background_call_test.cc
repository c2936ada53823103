#include "runtime/process/background_call.h"

#include <atomic>

#include "gtest/gtest.h"

#include "base/notification.h"

namespace shoal {
namespace {

TEST(BackgroundCallTest, CallersDoNotWaitAndRequestsMeanwhileAreOne) {
  Notification entered, go_on, again;
  std::atomic<int> runs{0}, at_once{0};
  BackgroundCall call([&] {
    EXPECT_EQ(++at_once, 1);
    if (++runs == 1) {
      entered.Notify();
      EXPECT_TRUE(go_on.WaitFor(absl::Seconds(30)));
    } else {
      again.Notify();
    }
    --at_once;
  });
  call.Request();
  ASSERT_TRUE(entered.WaitFor(absl::Seconds(30)));
  for (int i = 0; i < 10; ++i) call.Request();
  EXPECT_EQ(runs, 1);
  go_on.Notify();
  ASSERT_TRUE(again.WaitFor(absl::Seconds(30)));
  call.Close();
  EXPECT_EQ(runs, 2);
}

TEST(BackgroundCallTest, CloseWaitsForTheOneUnderWayAndNothingRunsAfterIt) {
  Notification entered, never;
  std::atomic<int> done{0};
  BackgroundCall call([&] {
    entered.Notify();
    EXPECT_FALSE(never.WaitFor(absl::Milliseconds(50)));
    ++done;
  });
  call.Request();
  ASSERT_TRUE(entered.WaitFor(absl::Seconds(30)));
  call.Close();
  EXPECT_EQ(done, 1);
  call.Request();
  call.Close();
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace shoal
