#include "runtime/cluster/slurm_lists.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<std::string> Nodes(absl::string_view text) {
  const auto nodes = ParseNodeList("LIST", text);
  EXPECT_TRUE(nodes.ok()) << nodes.status();
  return nodes.ok() ? *nodes : std::vector<std::string>();
}

std::string NodesError(absl::string_view text) {
  return std::string(ParseNodeList("LIST", text).status().message());
}

std::string TasksError(absl::string_view text) {
  return std::string(ParseTasksPerNode("TASKS", text).status().message());
}

TEST(NodeListTest, RangesPaddingAndGroupsAreExpandedInOrder) {
  EXPECT_THAT(Nodes("d[0-2]"), ElementsAre("d0", "d1", "d2"));
  EXPECT_THAT(Nodes("node7"), ElementsAre("node7"));
  EXPECT_THAT(Nodes("a[01-03,7],b2"), ElementsAre("a01", "a02", "a03", "a7", "b2"));
  EXPECT_THAT(Nodes("a[098-101]"), ElementsAre("a098", "a099", "a100", "a101"));
  EXPECT_THAT(Nodes("r[0-1]n[1,3]-ib"), ElementsAre("r0n1-ib", "r0n3-ib", "r1n1-ib", "r1n3-ib"));
  EXPECT_THAT(Nodes("gpu-a.site,gpu-b.site"), ElementsAre("gpu-a.site", "gpu-b.site"));
}

TEST(NodeListTest, MalformedListsAreRefusedAndNamed) {
  EXPECT_THAT(NodesError(""), StartsWith("LIST: \"\" has an empty name"));
  EXPECT_THAT(NodesError("a,,b"), HasSubstr("has an empty name"));
  EXPECT_THAT(NodesError("a,"), HasSubstr("has an empty name"));
  EXPECT_THAT(NodesError("a[0-1"), HasSubstr("does not close"));
  EXPECT_THAT(NodesError("a0-1]"), HasSubstr("cross"));
  EXPECT_THAT(NodesError("a[[0]]"), HasSubstr("cross"));
  EXPECT_THAT(NodesError("a[]"), HasSubstr("not a list of numbers"));
  EXPECT_THAT(NodesError("a[x]"), HasSubstr("not a list of numbers"));
  EXPECT_THAT(NodesError("a[1-]"), HasSubstr("not a list of numbers"));
  EXPECT_THAT(NodesError("a[-1]"), HasSubstr("not a list of numbers"));
  EXPECT_THAT(NodesError("a[3-1]"), HasSubstr("runs backwards"));
  EXPECT_THAT(NodesError("a[0-999999999]"), HasSubstr("more than 65536"));
  EXPECT_THAT(NodesError("a[0-999]b[0-999]"), HasSubstr("more than 65536"));
  EXPECT_THAT(NodesError("a[1-99999999999]"), HasSubstr("not a list of numbers"));
}

TEST(TasksPerNodeTest, CountsAreRepeated) {
  EXPECT_THAT(*ParseTasksPerNode("TASKS", "2(x2),1"), ElementsAre(2, 2, 1));
  EXPECT_THAT(*ParseTasksPerNode("TASKS", "3,1(x2)"), ElementsAre(3, 1, 1));
  EXPECT_THAT(*ParseTasksPerNode("TASKS", "5"), ElementsAre(5));
}

TEST(TasksPerNodeTest, MalformedListsAreRefusedAndNamed) {
  for (const char* text : {"", "a", "2(x", "2(x)", "2(xa)", "2(x0)", "2x3", "-1", "2,", "2(x2)1"}) {
    EXPECT_THAT(TasksError(text), AllOf(StartsWith("TASKS: "), HasSubstr("2(x3),1"))) << text;
  }
  EXPECT_THAT(TasksError("1(x999999999)"), HasSubstr("more than 65536"));
}

}  // namespace
}  // namespace shoal
