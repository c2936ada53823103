#include "deploy/hosts/ssh_places.h"

#include <stdlib.h>

#include <algorithm>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "deploy/hosts/ssh_client.h"
#include "deploy/task_places.h"
#include "runtime/config/flags.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<TaskPlaces>> Places(const std::string& hosts,
                                                   const std::string& metrics_address,
                                                   uint32_t grace_seconds = 0) {
  std::string directory = ::testing::TempDir() + "/ssh_places.XXXXXX";
  EXPECT_NE(mkdtemp(directory.data()), nullptr);
  TaskFlags flags;
  flags.hosts_file = directory + "/hosts";
  flags.metrics_address = metrics_address;
  flags.insecure = true;
  EXPECT_TRUE(WriteAtomically(*NewPosixFileSystem(), flags.hosts_file, hosts).ok());
  v1::RunConfig run;
  run.mutable_deployment()->set_num_ps_tasks(1);
  run.mutable_deployment()->set_num_replicas(1);
  run.mutable_cluster()->set_grace_seconds(grace_seconds);
  return SshPlaces::Create(flags, run, "/work");
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

TEST(SshPlacesTest, TheFarSideHearsHowLongAStopMayTake) {
  for (const auto& [given, told] :
       {std::pair(0u, "'--grace=10'"), std::pair(600u, "'--grace=600'")}) {
    const auto places = Places("alpha\n", "", given);
    ASSERT_TRUE(places.ok()) << places.status();
    EXPECT_THAT((*places)->Command({Job::kPs, 0}, /*again=*/false, "/log", {"shoal", "ps"}).back(),
                HasSubstr(told));
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
