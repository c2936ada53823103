#include "deploy/model_command.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "ml/data/dataset.h"
#include "ml/nn/model_builder.h"
#include "ml/nn/zoo_layers.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// The variables of the model in this run file, with their shapes, and its tables.
std::vector<std::string> VariablesOf(v1::RunConfig run, const zoo::Model& named) {
  ResolveDefaults(TaskCounts(), &run);
  std::vector<FieldSpec> fields = {{kInputField, {DataType::kFloat32, {3, 64, 64}}},
                                   named.is_regression
                                       ? FieldSpec{kTargetField, {DataType::kFloat32, {1}}}
                                       : FieldSpec{kLabelField, {DataType::kInt32, {}}}};
  if (named.features != nullptr) {
    fields[0].example = {DataType::kFloat32, {13}};
    fields.push_back(RaggedField("c1"));
    fields.push_back(RaggedField("c2"));
  }
  const auto model = MakeModel(run.model(), fields, named.is_regression ? 1 : 7, {}, &run.table());
  EXPECT_OK(model.status());
  std::vector<std::string> variables;
  if (!model.ok()) return variables;
  Graph graph;
  GraphBuilder builder(&graph);
  (*model)(builder, InputQueue(fields).Dequeue(builder), true);
  for (const auto& variable : graph.variables()) {
    variables.push_back(variable.spec.name + variable.spec.shape.ToString());
  }
  for (const TableInput& table : graph.table_inputs()) {
    variables.push_back(table.table + table.rows.shape().ToString());
  }
  return variables;
}

TEST(ModelCommandTest, ThePrintedTextIsTheModelOfThatName) {
  for (const zoo::Model& model : zoo::Models()) {
    ASSERT_OK_AND_ASSIGN(const std::string text, ModelText({model.name, "7"}));
    ASSERT_OK_AND_ASSIGN(const v1::RunConfig layers, ParseRunConfig(text, model.name));
    v1::RunConfig named;
    named.mutable_model()->set_name(model.name);
    const std::vector<std::string> variables = VariablesOf(named, model);
    EXPECT_FALSE(variables.empty());
    EXPECT_EQ(VariablesOf(layers, model), variables) << model.name;
  }
}

TEST(ModelCommandTest, ErrorsNameTheArgument) {
  const auto error = [](const std::vector<std::string>& args) {
    return std::string(ModelText(args).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("NAME: is missing; it is one of "));
  EXPECT_THAT(error({"resnet19"}), HasSubstr("did you mean resnet18?"));
  EXPECT_THAT(error({"mlp", "one"}), HasSubstr("one: is not a number of classes"));
  EXPECT_THAT(error({"mlp", "3", "x"}), HasSubstr("x: is not expected"));
}

}  // namespace
}  // namespace shoal
