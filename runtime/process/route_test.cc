#include "runtime/process/route.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(RouteTest, AroundTheLoopbackIsTheLoopback) {
  EXPECT_EQ(*LocalHostToward("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(*LocalHostToward("127.0.0.7:80"), "127.0.0.1");
}

TEST(RouteTest, ANameThatIsNotKnownIsUnavailableAndNamed) {
  const auto host = LocalHostToward("no-such-host.invalid:80");
  EXPECT_EQ(host.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(host.status().message()), HasSubstr("\"no-such-host.invalid\""));
}

TEST(RouteTest, AWaitForANameEndsAtItsDeadlineOrByShutdown) {
  const RealClock clock;
  ShutdownNotification shutdown;
  const auto late =
      AwaitLocalHostToward("no-such-host.invalid:80", absl::ZeroDuration(), clock, &shutdown);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.status().message()), HasSubstr("no-such-host.invalid"));
  shutdown.Request();
  const auto stopped =
      AwaitLocalHostToward("no-such-host.invalid:80", absl::Hours(1), clock, &shutdown);
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace shoal
