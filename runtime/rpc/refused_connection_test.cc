#include "runtime/rpc/refused_connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace shoal {
namespace {

using ::testing::HasSubstr;

absl::Status Failed(const std::string& last) {
  return absl::UnavailableError("failed to connect to all addresses; last error: " + last);
}

TEST(RefusedConnectionTest, AnAbsentPeerIsNotARefusal) {
  for (const absl::Status& status :
       {Failed("UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: Connection refused"),
        absl::UnavailableError("Socket closed"), absl::OkStatus(),
        absl::PermissionDeniedError("certificate verify failed")}) {
    EXPECT_EQ(FindRefusal(status, true).why, "") << status;
    EXPECT_EQ(FindRefusal(status, false).why, "") << status;
  }
}

TEST(RefusedConnectionTest, ACertificateThatIsNotTrustedIsNamedWithTheFlag) {
  const RefusedConnection refused = FindRefusal(
      Failed("UNKNOWN: ipv4:127.0.0.1:1: Tls handshake failed: SSL_ERROR_SSL: error:0A000086:SSL "
             "routines::certificate verify failed"),
      true);
  EXPECT_TRUE(refused.certain);
  EXPECT_THAT(refused.why, HasSubstr("--tls_ca"));
  EXPECT_THAT(refused.why, HasSubstr("expired"));
}

TEST(RefusedConnectionTest, APlaintextPeerIsNamed) {
  const RefusedConnection refused =
      FindRefusal(Failed("error:0A00010B:SSL routines::wrong version number"), true);
  EXPECT_TRUE(refused.certain);
  EXPECT_THAT(refused.why, HasSubstr("does not use TLS"));
}

TEST(RefusedConnectionTest, APeerWithAnotherProtocolIsNotATask) {
  for (const bool secure : {false, true}) {
    const RefusedConnection refused =
        FindRefusal(Failed("UNAVAILABLE: ipv4:127.0.0.1:1: Failed parsing HTTP/2"), secure);
    EXPECT_TRUE(refused.certain);
    EXPECT_THAT(refused.why, HasSubstr("is not a Shoal task"));
  }
}

TEST(RefusedConnectionTest, AReasonIsAFewWords) {
  EXPECT_EQ(ShortReason(Failed("UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: "
                               "Connection refused")),
            "connection refused");
  EXPECT_EQ(ShortReason(absl::UnavailableError("DNS resolution failed for a:1: UNKNOWN: Name or "
                                               "service not known")),
            "the host's name is not known");
  EXPECT_EQ(ShortReason(absl::DeadlineExceededError("Deadline Exceeded")), "no answer in time");
  EXPECT_EQ(ShortReason(absl::UnavailableError("does not serve")), "does not serve");
}

TEST(RefusedConnectionTest, APeerOfAnotherRoleIsNamed) {
  const RefusedConnection refused =
      FindRefusal(Failed("Custom verification check failed with error: UNAUTHENTICATED: wanted "
                         "spiffe://shoal/chief, but the certificate there is of spiffe://shoal/ps"),
                  true);
  EXPECT_TRUE(refused.certain);
  EXPECT_EQ(refused.why,
            "another task listens there: wanted spiffe://shoal/chief, but the certificate there is "
            "of spiffe://shoal/ps");
}

TEST(RefusedConnectionTest, AClosedConnectionMayAlsoBeAProxys) {
  const absl::Status closed = Failed("UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed");
  EXPECT_FALSE(FindRefusal(closed, true).certain);
  EXPECT_FALSE(FindRefusal(closed, false).certain);
  EXPECT_THAT(FindRefusal(closed, true).why, HasSubstr("--tls_cert"));
  EXPECT_THAT(FindRefusal(closed, false).why, HasSubstr("if the run uses TLS, give --tls_ca"));
}

TEST(RefusedConnectionTest, AWarningNamesTheAddressAndTheRemedy) {
  EXPECT_EQ(DescribeFailure(Failed("UNAVAILABLE: ipv4:127.0.0.1:1: Socket closed"), "a:1", true),
            "a:1: it closes the connection: it may not trust this side's --tls_cert (another "
            "authority, expired), its log says so then; give both sides certificates of one "
            "authority (the connection was closed)");
  EXPECT_EQ(DescribeFailure(absl::UnavailableError("Socket closed"), "a:1", true),
            "a:1: UNAVAILABLE: Socket closed");
  EXPECT_EQ(DescribeFailure(absl::UnavailableError("does not serve"), "", false),
            "UNAVAILABLE: does not serve");
}

}  // namespace
}  // namespace shoal
