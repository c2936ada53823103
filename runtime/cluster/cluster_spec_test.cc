#include "runtime/cluster/cluster_spec.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/cluster/address.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string HostsError(absl::string_view ps, absl::string_view workers, absl::string_view chief) {
  return std::string(ClusterSpec::FromHostLists(ps, workers, chief).status().message());
}

std::string TextError(absl::string_view text) {
  return std::string(ClusterSpec::FromText(text, "c.textproto").status().message());
}

TEST(ClusterSpecTest, HostListsAreInOrderOfIndex) {
  const absl::StatusOr<ClusterSpec> spec =
      ClusterSpec::FromHostLists("a:1,b:2", "[::1]:3, unix:/tmp/w", "c:4");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->ps(), ElementsAre("a:1", "b:2"));
  EXPECT_THAT(spec->workers(), ElementsAre("[::1]:3", "unix:/tmp/w"));
  EXPECT_EQ(*spec->Address({Job::kPs, 1}), "b:2");
  EXPECT_EQ(*spec->Address({Job::kChief, 0}), "c:4");
  EXPECT_THAT(spec->Address({Job::kWorker, 2}).status().message(),
              HasSubstr("no worker/2; job worker has 2 tasks"));
}

TEST(ClusterSpecTest, BadAddressesNameTheList) {
  EXPECT_THAT(HostsError("a", "", ""), HasSubstr("ps_hosts: \"a\" has no port"));
  EXPECT_THAT(HostsError("", ":1", ""), HasSubstr("worker_hosts: \":1\" has no host"));
  EXPECT_THAT(HostsError("", "a:70000", ""), HasSubstr("not a number from 1 to 65535"));
  EXPECT_THAT(HostsError("", "a:x", ""), HasSubstr("not a number"));
  EXPECT_THAT(HostsError("", "a:0", ""), HasSubstr("port 0"));
  EXPECT_THAT(HostsError("", "a:1,,b:1", ""), HasSubstr("is empty"));
  EXPECT_THAT(HostsError("::1:22", "", ""), HasSubstr("brackets"));
  EXPECT_THAT(HostsError("unix:", "", ""), HasSubstr("no path"));
  EXPECT_THAT(HostsError("", "", "a:1,b:1"), HasSubstr("chief_host: 2 addresses"));
}

TEST(ClusterSpecTest, AnAddressBelongsToOneTask) {
  EXPECT_EQ(HostsError("a:1,b:2", "b:2", ""),
            "address b:2 is given to ps/1 and to worker/0; give each its own port");
}

TEST(ClusterSpecTest, PortZeroIsForListening) {
  EXPECT_TRUE(CheckAddress("listen_address", "127.0.0.1:0", AddressUse::kListen).ok());
  EXPECT_FALSE(CheckAddress("ps_hosts", "127.0.0.1:0").ok());
}

TEST(ClusterSpecTest, TextIsReadInAnyOrderOfIndex) {
  const absl::StatusOr<ClusterSpec> spec = ClusterSpec::FromText(
      R"(job { name: "ps" tasks { index: 1 address: "b:2" } tasks { index: 0 address: "a:1" } }
         job { name: "chief" tasks { address: "c:3" } })",
      "c.textproto");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->ps(), ElementsAre("a:1", "b:2"));
  EXPECT_EQ(spec->chief(), "c:3");
}

TEST(ClusterSpecTest, PrintedTextIsReadBackEqual) {
  const ClusterSpec spec = *ClusterSpec::FromHostLists("a:1,b:2", "w:1", "c:4");
  const absl::StatusOr<ClusterSpec> again = ClusterSpec::FromText(spec.ToText(), "x");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ps(), spec.ps());
  EXPECT_EQ(again->workers(), spec.workers());
  EXPECT_EQ(again->chief(), spec.chief());
}

TEST(ClusterSpecTest, WorkersMayBeListedWithoutAddresses) {
  const absl::StatusOr<ClusterSpec> spec = ClusterSpec::FromText(
      R"(job { name: "worker" tasks { index: 0 } tasks { index: 1 } })", "c.textproto");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->workers(), ElementsAre("", ""));
  EXPECT_EQ(ClusterSpec::FromText(spec->ToText(), "x")->workers().size(), 2u);
}

TEST(ClusterSpecTest, BadTextNamesFileJobAndIndex) {
  EXPECT_THAT(TextError("job { name: \"boss\" }"),
              HasSubstr("c.textproto: job \"boss\" is unknown"));
  EXPECT_THAT(TextError("job { name: \"ps\" tasks { index: 1 address: \"a:1\" } }"),
              HasSubstr("c.textproto: job ps: index 1 with 1 tasks"));
  EXPECT_THAT(
      TextError("job { name: \"ps\" tasks { address: \"a:1\" } tasks { address: \"b:1\" } }"),
      HasSubstr("index 0 is given twice"));
  EXPECT_THAT(TextError("job { name: \"ps\" tasks { address: \"a\" } }"),
              HasSubstr("job ps index 0: \"a\" has no port"));
  EXPECT_THAT(TextError("job { name: \"ps\" } job { name: \"ps\" }"), HasSubstr("given twice"));
  EXPECT_THAT(TextError("jobs {}"), HasSubstr("did you mean job?"));
}

TEST(TaskIdTest, HasNamesForPeopleAndFiles) {
  EXPECT_EQ((TaskId{Job::kWorker, 3}).ToString(), "worker/3");
  EXPECT_EQ((TaskId{Job::kPs, 0}).FileStem(), "ps-0");
  EXPECT_EQ((TaskId{Job::kEvaluator, 0}).ToString(), "evaluator/0");
  EXPECT_EQ(*ParseJob("master"), Job::kChief);
  EXPECT_EQ(*ParseJob("evaluator"), Job::kEvaluator);
}

TEST(ClusterSpecTest, AnEvaluatorMayBeListedAndIsNotPartOfTheCluster) {
  const auto spec = ClusterSpec::FromText(
      "job { name: \"ps\" tasks { address: \"a:1\" } }"
      "job { name: \"evaluator\" tasks { address: \"b:1\" } }",
      "cluster");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->ToText().find("evaluator"), std::string::npos);
  EXPECT_THAT(std::string(spec->Address({Job::kEvaluator, 0}).status().message()),
              HasSubstr("not part of the cluster"));
}

}  // namespace
}  // namespace shoal
