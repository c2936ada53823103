#include "runtime/tls/refusals.h"

#include <grpc/support/log.h>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kStart = absl::FromUnixSeconds(1600000000);

TEST(RefusalsTest, TheSameIsLoggedOnceInAWhile) {
  Refusals refusals;
  EXPECT_TRUE(refusals.IsFirst("a", kStart));
  EXPECT_FALSE(refusals.IsFirst("a", kStart + Refusals::kSilence - absl::Seconds(1)));
  EXPECT_TRUE(refusals.IsFirst("b", kStart + Refusals::kSilence - absl::Seconds(1)));
  EXPECT_TRUE(refusals.IsFirst("a", kStart + Refusals::kSilence));
}

TEST(RefusalsTest, AFloodIsLimitedAndThatIsLoggedOnce) {
  Refusals refusals;
  for (size_t i = 0; i < Refusals::kMost; ++i) {
    EXPECT_TRUE(refusals.IsFirst(absl::StrCat("kind ", i), kStart));
  }
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(refusals.IsFirst("new", kStart));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("more than 200 kinds"));
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(refusals.IsFirst("newer", kStart + absl::Seconds(1)));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(RefusalsTest, OldLinesAreForgottenSoThatNewKindsAreLogged) {
  Refusals refusals;
  absl::Time now = kStart;
  for (int day = 0; day < 3; ++day) {
    for (size_t i = 0; i < Refusals::kMost; ++i) {
      EXPECT_TRUE(refusals.IsFirst(absl::StrCat("day ", day, " kind ", i), now)) << day;
    }
    now += Refusals::kSilence;
  }
}

TEST(RefusalsTest, GrpcsLinesAboutAGoodClientAreNotRefusals) {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);  // gRPC does this when it begins.
  LogHandshakesOnce();
  ::testing::internal::CaptureStderr();
  gpr_log(GPR_ERROR, "No match found for server name: %s.", "127.0.0.1");
  gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: %s.", "why");
  gpr_log(GPR_ERROR, "Handshake failed with fatal error SSL_ERROR_SSL: %s.", "why");
  gpr_log(GPR_INFO, "news");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, Not(HasSubstr("No match found")));
  EXPECT_THAT(log, Not(HasSubstr("news")));
  const size_t first = log.find("grpc: Handshake failed");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("grpc: Handshake failed", first + 1), std::string::npos) << log;
}

}  // namespace
}  // namespace shoal
