#include "runtime/config/optimizer_groups.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

v1::OptimizerConfig Optimizer(const std::string& text) {
  v1::OptimizerConfig optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

std::vector<v1::VariableSpec> Variables() {
  const std::vector<std::pair<const char*, v1::UpdateKind>> all = {
      {"conv1/weights", v1::UPDATE_KIND_OPTIMIZER},
      {"conv1/biases", v1::UPDATE_KIND_OPTIMIZER},
      {"norm/mean", v1::UPDATE_KIND_MOVING_AVERAGE},
      {"fc/weights", v1::UPDATE_KIND_OPTIMIZER},
      {"fc/table", v1::UPDATE_KIND_NONE}};
  std::vector<v1::VariableSpec> variables;
  for (const auto& [name, update] : all) {
    v1::VariableSpec& variable = variables.emplace_back();
    variable.set_name(name);
    variable.set_update(update);
  }
  return variables;
}

std::string Refusal(const std::string& groups) {
  std::vector<v1::VariableSpec> variables = Variables();
  const absl::StatusOr<OptimizerGroups> made = OptimizerGroups::Create(Optimizer(groups));
  if (!made.ok()) return std::string(made.status().message());
  for (v1::VariableSpec& variable : variables) made->Freeze(&variable);
  return std::string(made->CheckAllAreUsed(variables).message());
}

TEST(OptimizerGroupsTest, TheFirstGroupThatMatchesAWholeNameHasTheVariable) {
  const OptimizerGroups groups = *OptimizerGroups::Create(
      Optimizer("group { variables: '.*/biases' } group { variables: 'conv1/.*' }"));
  EXPECT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups.Find("conv1/biases"), std::optional<size_t>(0));
  EXPECT_EQ(groups.Find("conv1/weights"), std::optional<size_t>(1));
  EXPECT_EQ(groups.Find("fc/weights"), std::nullopt);
  EXPECT_EQ(groups.Find("my_conv1/weights"), std::nullopt);
}

TEST(OptimizerGroupsTest, FrozenParametersGetNoContributions) {
  const OptimizerGroups groups = *OptimizerGroups::Create(Optimizer(
      "group { variables: 'conv1/weights' } group { variables: '(conv1|norm)/.*' frozen: true }"));
  EXPECT_TRUE(groups.IsFrozen("conv1/biases"));
  EXPECT_FALSE(groups.IsFrozen("conv1/weights"));
  std::vector<v1::VariableSpec> variables = Variables();
  for (v1::VariableSpec& variable : variables) groups.Freeze(&variable);
  EXPECT_EQ(variables[0].update(), v1::UPDATE_KIND_OPTIMIZER);
  EXPECT_EQ(variables[1].update(), v1::UPDATE_KIND_NONE);
  EXPECT_EQ(variables[2].update(), v1::UPDATE_KIND_MOVING_AVERAGE);  // A statistic is none of them.
  EXPECT_TRUE(groups.CheckAllAreUsed(variables).ok());
  v1::VariableSpec table = variables[1];
  table.set_update(v1::UPDATE_KIND_OPTIMIZER);
  table.mutable_table()->set_buckets(16);
  groups.Freeze(&table);
  EXPECT_EQ(table.update(), v1::UPDATE_KIND_OPTIMIZER) << "a frozen table is refused elsewhere";
}

TEST(OptimizerGroupsTest, AGroupWithoutVariablesIsNamed) {
  EXPECT_EQ(Refusal("group { variables: 'fc/.*' } group { variables: 'conv2/.*' }"),
            "optimizer.group[1].variables: \"conv2/.*\" matches the whole name of none of the "
            "variables conv1/weights, conv1/biases, fc/weights, fc/table; correct it, e.g. "
            "\"fc/.*\"");
  EXPECT_EQ(Refusal("group { variables: 'norm/mean' }").substr(0, 59),
            "optimizer.group[0].variables: \"norm/mean\" matches the whole");
  EXPECT_EQ(Refusal("group { variables: '.*' } group { variables: 'fc/weights' }"),
            "optimizer.group[1].variables: matches only variables that earlier groups have, and "
            "the first group that matches counts; put this group first or drop it");
  EXPECT_EQ(Refusal("group { variables: '' }"),
            "optimizer.group[0].variables: is empty; give an expression for names of variables, "
            "e.g. \".*bias\"");
  EXPECT_THAT(
      Refusal("group { variables: 'a' } group { variables: 'b(' }"),
      testing::StartsWith("optimizer.group[1].variables: \"b(\" is not a regular expression"));
  EXPECT_EQ(Refusal("group { variables: 'fc/table' }"), "");
}

TEST(OptimizerGroupsTest, SomethingMustBeTrained) {
  EXPECT_EQ(Refusal("group { variables: '.*' frozen: true }"),
            "optimizer.group: all parameters are frozen, so there is nothing to train; drop "
            "`frozen` of a group");
}

TEST(OptimizerGroupsTest, TheLearningRateOfAGroupIsGivenOrFollowsTheRuns) {
  const v1::OptimizerConfig optimizer = Optimizer(
      "learning_rate: 0.5 group { variables: 'a' } group { variables: 'b' learning_rate: 0.125 } "
      "group { variables: 'c' learning_rate_multiplier: 0.5 } "
      "group { variables: 'd' learning_rate: 0 }");
  EXPECT_EQ(GroupLearningRate(optimizer, 0), 0.5);
  EXPECT_EQ(GroupLearningRate(optimizer, 1), 0.125);
  EXPECT_EQ(GroupLearningRate(optimizer, 2), 0.25);
  EXPECT_EQ(GroupLearningRate(optimizer, 3), 0);
}

}  // namespace
}  // namespace shoal
