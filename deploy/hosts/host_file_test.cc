#include "deploy/hosts/host_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

std::vector<HostLine> Parse(absl::string_view text) {
  auto hosts = ParseHostFile(text, "hosts");
  EXPECT_TRUE(hosts.ok()) << hosts.status();
  return *hosts;
}

std::string Refused(absl::string_view text) {
  const auto hosts = ParseHostFile(text, "hosts");
  EXPECT_EQ(hosts.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(hosts.status().message());
}

TEST(HostFileTest, ALineIsAHostWithWhatItTakes) {
  const auto hosts = Parse(
      "# the cluster\n\nalpha roles=chief,ps\n"
      "10.1.2.3\tslots=4 roles=worker user=train port=2222 address=gamma.cluster # fast\r\n");
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0].name, "alpha");
  EXPECT_EQ(hosts[0].address, "alpha");
  EXPECT_TRUE(hosts[0].takes_chief && hosts[0].takes_ps && !hosts[0].takes_workers);
  EXPECT_EQ(hosts[1].slots, 4u);
  EXPECT_EQ(hosts[1].user, "train");
  EXPECT_EQ(hosts[1].port, 2222u);
  EXPECT_EQ(hosts[1].address, "gamma.cluster");
  EXPECT_TRUE(!hosts[1].takes_chief && !hosts[1].takes_ps && hosts[1].takes_workers);
}

TEST(HostFileTest, UnknownTextIsNamed) {
  EXPECT_THAT(Refused(""), HasSubstr("--hosts: hosts names no host"));
  EXPECT_THAT(Refused("a\nb slots=0"), HasSubstr("--hosts: hosts:2: slots must be"));
  EXPECT_THAT(Refused("a slots=two"), HasSubstr("slots must be"));
  EXPECT_THAT(Refused("a roles=boss"), HasSubstr("role \"boss\" is unknown"));
  EXPECT_THAT(Refused("a port=70000"), HasSubstr("port must be"));
  EXPECT_THAT(Refused("a cores=4"), HasSubstr("\"cores=4\" is unknown"));
  EXPECT_THAT(Refused("a\na"), HasSubstr("hosts:2: a is there already"));
  EXPECT_THAT(Refused("a slots=1 slots=2"), HasSubstr("hosts:1: slots= is given twice"));
  EXPECT_THAT(Refused("a roles=ps roles=ps"), HasSubstr("roles= is given twice"));
  EXPECT_THAT(Refused("a address=a:22"),
              HasSubstr("address \"a:22\" is not a host name or address"));
  EXPECT_THAT(Refused("a address="), HasSubstr("address \"\" is not a host name or address"));
  EXPECT_THAT(
      Refused("127.0.0.1:22"),
      HasSubstr(
          "\"127.0.0.1:22\" is not a host name; a user is given as user=NAME, a port as port=N"));
  EXPECT_THAT(Refused("[::1]:22"), HasSubstr("is not a host name"));
  EXPECT_THAT(Refused("a user=me:x"), HasSubstr("user \"me:x\" is not a name"));
  // It would be read as an option, or as a command.
  EXPECT_THAT(Refused("-oProxyCommand=x"), HasSubstr("is not a host name"));
  EXPECT_THAT(Refused("me@a"), HasSubstr("a user is given as user=NAME"));
  EXPECT_THAT(Refused("a;reboot"), HasSubstr("is not a host name"));
  EXPECT_THAT(Refused("a user=x$(y)"), HasSubstr("is not a name"));
}

TEST(HostFileTest, ANumberOfIPv6IsAHost) {
  const auto hosts = Parse("fe80::1 slots=1\nalpha address=::1\n");
  EXPECT_EQ(hosts[0].address, "fe80::1");
  EXPECT_EQ(hosts[1].address, "::1");
}

TEST(HostFileTest, TasksGoRoundTheHostsThatTakeThem) {
  const auto hosts = Parse("a roles=ps\nb\nc roles=worker slots=1\n");
  const auto placement = Placement::Create(hosts, 3, 4);
  ASSERT_TRUE(placement.ok()) << placement.status();
  EXPECT_EQ(placement->FindHost({Job::kChief, 0}), 1u);
  EXPECT_EQ(placement->FindHost({Job::kPs, 0}), 0u);
  EXPECT_EQ(placement->FindHost({Job::kPs, 1}), 1u);
  EXPECT_EQ(placement->FindHost({Job::kPs, 2}), 0u);
  EXPECT_EQ(placement->FindHost({Job::kWorker, 0}), 1u);
  EXPECT_EQ(placement->FindHost({Job::kWorker, 1}), 2u);
  EXPECT_EQ(placement->FindHost({Job::kWorker, 2}), 1u);  // c is full.
  EXPECT_EQ(placement->FindHost({Job::kWorker, 3}), 1u);
  for (const auto& [worker, index] : {std::pair(0u, 0u), {1u, 0u}, {2u, 1u}, {3u, 2u}}) {
    EXPECT_EQ(placement->LocalIndexOf(worker), index) << worker;
  }
}

TEST(HostFileTest, TooFewSlotsOrNoHostForAJobIsAnError) {
  EXPECT_THAT(
      std::string(Placement::Create(Parse("a slots=1\nb slots=2"), 1, 4).status().message()),
      HasSubstr("--num_replicas: is 4, but the hosts have slots for 3 workers"));
  EXPECT_THAT(std::string(Placement::Create(Parse("a roles=chief,ps"), 1, 1).status().message()),
              HasSubstr("no host takes workers"));
}

}  // namespace
}  // namespace shoal
