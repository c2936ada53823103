#include "deploy/hosts/ssh_places.h"

#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "deploy/hosts/ssh_client.h"
#include "deploy/launch/task_places.h"
#include "runtime/config/flags.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<std::unique_ptr<TaskPlaces>> PlacesWith(TaskFlags flags, const std::string& hosts,
                                                       uint32_t grace_seconds = 0) {
  std::string directory = ::testing::TempDir() + "/ssh_places.XXXXXX";
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  flags.hosts_file = directory + "/hosts";
  EXPECT_TRUE(WriteAtomically(*NewPosixFileSystem(), flags.hosts_file, hosts).ok());
  v1::RunConfig run;
  run.mutable_deployment()->set_num_ps_tasks(1);
  run.mutable_deployment()->set_num_replicas(1);
  run.mutable_cluster()->set_grace_seconds(grace_seconds);
  ResolveDefaults(TaskCounts(), &run);
  return SshPlaces::Create(flags, run, "/work");
}

absl::StatusOr<std::unique_ptr<TaskPlaces>> Places(const std::string& hosts,
                                                   const std::string& metrics_address,
                                                   uint32_t grace_seconds = 0) {
  TaskFlags flags;
  flags.metrics_address = metrics_address;
  flags.insecure = true;
  return PlacesWith(flags, hosts, grace_seconds);
}

TEST(SshPlacesTest, AnSshConfigurationThatCannotBeReadIsRefusedBeforeTheStart) {
  TaskFlags flags;
  const std::pair<const char*, const char*> cases[] = {
      {"/nonexistent/config",
       "--ssh_config: cannot open /nonexistent/config: No such file or directory; name a"},
      {"/etc", "--ssh_config: /etc is a directory; name a configuration of ssh, /dev/null for"}};
  for (const auto& [path, message] : cases) {
    flags.ssh_config = path;
    const absl::Status status = PlacesWith(flags, "localhost\n").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << path;
    EXPECT_THAT(std::string(status.message()), StartsWith(message));
  }
  flags.ssh_config = "/dev/null";
  EXPECT_EQ(PlacesWith(flags, "localhost\n").status(), absl::OkStatus());
}

TEST(SshPlacesTest, WithoutCertificatesTasksStayOnThisMachineUnlessInsecure) {
  TaskFlags flags;
  EXPECT_EQ(PlacesWith(flags, "localhost\n127.0.0.1\n::1\n").status(), absl::OkStatus());
  const absl::Status status = PlacesWith(flags, "localhost\nalpha slots=1\n").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("--hosts: tasks on alpha can be reached by other "
                         "machines, and connections are not encrypted; give "));
  flags.insecure = true;
  EXPECT_EQ(PlacesWith(flags, "alpha\n").status(), absl::OkStatus());
}

TEST(SshPlacesTest, AMetricsAddressIsWherePrometheusCanBe) {
  for (const char* loopback : {"127.0.0.1:9100", "localhost:9100", "[::1]:9100"}) {
    const absl::Status status = Places("localhost\nbeta\n", loopback).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << loopback;
    EXPECT_THAT(status.message(), HasSubstr(std::string("--metrics_address: is ") + loopback));
    EXPECT_THAT(status.message(), HasSubstr("beta is another"));
    EXPECT_EQ(Places("localhost\n127.0.0.1\n", loopback).status(), absl::OkStatus());
  }
  for (const char* reached : {"", "alpha:9100", "0.0.0.0:9100"}) {
    EXPECT_EQ(Places("alpha\nbeta\n", reached).status(), absl::OkStatus()) << reached;
  }
}

TEST(SshPlacesTest, TheRemoteSideReceivesHowLongAStopMayTake) {
  for (const auto& [given, wanted] :
       {std::pair(0u, "'--grace=10'"), std::pair(600u, "'--grace=600'")}) {
    const auto places = Places("alpha\n", "", given);
    ASSERT_TRUE(places.ok()) << places.status();
    EXPECT_THAT((*places)->Command({Job::kPs, 0}, /*again=*/false, "/log", {"shoal", "ps"}).back(),
                HasSubstr(wanted));
  }
}

TEST(SshPlacesTest, TheMachinesClientIsCalledSoThatTheUsersOwnHabitsDoNotCount) {
  const auto places = Places("alpha\n", "");
  ASSERT_TRUE(places.ok()) << places.status();
  const std::vector<std::string> words =
      (*places)->Command({Job::kWorker, 0}, /*again=*/false, "/log", {"shoal", "worker"});
  const std::vector<std::string> client = SshClient();
  EXPECT_NE(std::search(words.begin(), words.end(), client.begin(), client.end()), words.end());
}

}  // namespace
}  // namespace shoal
