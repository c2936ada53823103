#include "runtime/process/task_credentials.h"

#include <gtest/gtest.h>

#include "absl/time/clock.h"

#include "runtime/config/flags.h"
#include "runtime/rpc/credentials.h"
#include "runtime/rpc/test_certificates.h"

namespace shoal {
namespace {

TaskFlags Given(const std::string& cert, const std::string& key, const std::string& ca) {
  TaskFlags flags;
  flags.tls_cert = cert;
  flags.tls_key = key;
  flags.tls_ca = ca;
  return flags;
}

TEST(TaskCredentialsTest, NoFlagsArePlaintext) {
  const auto credentials = ReadCredentials(TaskFlags(), "ps", absl::Now());
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ(*credentials, nullptr);
}

TEST(TaskCredentialsTest, AFlagWithoutTheOthersIsRefusedAndTheMissingOneNamed) {
  EXPECT_EQ(CheckTlsFlags(Given("a", "", "c")).message(),
            "--tls_key: is missing, but --tls_ca is given; mutual TLS needs --tls_cert, --tls_key "
            "and --tls_ca");
  EXPECT_EQ(CheckTlsFlags(Given("a", "b", "")).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckTlsFlags(Given("", "", "c")).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TaskCredentialsTest, InsecureTogetherWithCertificatesIsRefused) {
  TaskFlags flags = Given("a", "b", "c");
  EXPECT_TRUE(CheckTlsFlags(flags).ok());
  flags.insecure = true;
  EXPECT_EQ(CheckTlsFlags(flags).message(), "--insecure: contradicts --tls_cert; drop one of them");
}

TEST(TaskCredentialsTest, TheJobStandsInThePaths) {
  const TestCertificates made;
  const std::string pattern = made.directory() + "/{job}";
  const TaskFlags flags = Given(pattern + ".crt", pattern + ".key", made.directory() + "/ca.crt");
  const auto credentials = ReadCredentials(flags, "ps", absl::Now());
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ((*credentials)->identity().roles, kRolePs);
  EXPECT_EQ((*credentials)->identity().scope, "spiffe://shoal");
}

TEST(TaskCredentialsTest, ALauncherPassesTheFlagsOnWithAbsolutePaths) {
  TaskFlags flags = Given("a.crt", "/k/{job}.key", "c");
  EXPECT_EQ(SecurityFlags(flags, "/run"),
            (std::vector<std::string>{"--tls_cert=/run/a.crt", "--tls_key=/k/{job}.key",
                                      "--tls_ca=/run/c"}));
  flags = TaskFlags();
  flags.insecure = true;
  EXPECT_EQ(SecurityFlags(flags, "/run"), std::vector<std::string>{"--insecure"});
}

}  // namespace
}  // namespace shoal
