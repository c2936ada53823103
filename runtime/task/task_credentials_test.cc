#include "runtime/task/task_credentials.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "runtime/cluster/task.h"
#include "runtime/config/flags.h"
#include "runtime/tls/credentials.h"
#include "runtime/tls/test_certificates.h"

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
  const auto credentials = ReadTaskCredentials(TaskFlags(), {Job::kPs, 0}, false, absl::Now());
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

TEST(TaskCredentialsTest, TheJobIsFilledIntoThePathsAndAHostOfTheChiefIsBoth) {
  const TestCertificates made;
  const std::string pattern = made.directory() + "/{job}";
  const TaskFlags flags = Given(pattern + ".crt", pattern + ".key", made.directory() + "/ca.crt");
  const struct {
    TaskId task;
    bool hosts_chief;
    RoleSet roles;
  } cases[] = {{{Job::kChief, 0}, false, kRoleChief},
               {{Job::kPs, 1}, false, kRolePs},
               {{Job::kWorker, 0}, false, kRoleWorker},
               {{Job::kWorker, 0}, true, kRoleWorker | kRoleChief},
               {{Job::kEvaluator, 0}, false, kRoleEvaluator}};
  for (const auto& [task, hosts_chief, roles] : cases) {
    const auto credentials = ReadTaskCredentials(flags, task, hosts_chief, absl::Now());
    ASSERT_TRUE(credentials.ok()) << credentials.status();
    EXPECT_EQ((*credentials)->identity().roles, roles);
    EXPECT_EQ((*credentials)->identity().scope, "spiffe://shoal");
  }
  const auto asks = ReadOperatorCredentials(flags, absl::Now());
  ASSERT_TRUE(asks.ok()) << asks.status();
  EXPECT_EQ((*asks)->identity().roles, kRoleOperator);
}

TEST(TaskCredentialsTest, ACertificateWithoutTheTasksRoleIsRefused) {
  const TestCertificates made;
  const auto read = [&made](const char* name, Job job, bool hosts_chief = false) {
    const TlsFiles files = made.Of(name);
    return ReadTaskCredentials(Given(files.certificate, files.key, files.authorities), {job, 0},
                               hosts_chief, absl::Now())
        .status();
  };
  EXPECT_EQ(read("ps", Job::kChief), absl::FailedPreconditionError(absl::StrCat(
                                         "--tls_cert: ", made.directory(),
                                         "/ps.crt has the role ps, but chief/0 needs "
                                         "chief; name such a certificate, see docs/security.md")));
  EXPECT_EQ(read("worker", Job::kWorker, true),
            absl::FailedPreconditionError(absl::StrCat(
                "--tls_cert: ", made.directory(),
                "/worker.crt has the role worker, but worker/0, "
                "which hosts the chief, needs chief,worker; name such a certificate, see "
                "docs/security.md")));
  EXPECT_EQ(read("chief", Job::kWorker, true).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(read("operator", Job::kEvaluator).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(read("worker_chief", Job::kWorker), absl::OkStatus());
  EXPECT_EQ(read("all", Job::kWorker, true), absl::OkStatus());
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
