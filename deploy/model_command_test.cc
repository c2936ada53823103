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

// The variables of the model in this run file, with their shapes.
std::vector<std::string> VariablesOf(const v1::ModelConfig& config, bool is_regression) {
  const std::vector<FieldSpec> fields = {{kInputField, {DataType::kFloat32, {3, 64, 64}}},
                                         is_regression
                                             ? FieldSpec{kTargetField, {DataType::kFloat32, {1}}}
                                             : FieldSpec{kLabelField, {DataType::kInt32, {}}}};
  const auto model = MakeModel(config, fields, is_regression ? 1 : 7);
  EXPECT_OK(model.status());
  std::vector<std::string> variables;
  if (!model.ok()) return variables;
  Graph graph;
  GraphBuilder builder(&graph);
  (*model)(builder, InputQueue(fields).Dequeue(builder), true);
  for (const auto& variable : graph.variables()) {
    variables.push_back(variable.spec.name + variable.spec.shape.ToString());
  }
  return variables;
}

TEST(ModelCommandTest, ThePrintedTextIsTheModelOfThatName) {
  for (const zoo::Model& model : zoo::Models()) {
    ASSERT_OK_AND_ASSIGN(const std::string text, ModelText({model.name, "7"}));
    ASSERT_OK_AND_ASSIGN(const v1::RunConfig layers, ParseRunConfig(text, model.name));
    v1::ModelConfig named;
    named.set_name(model.name);
    const std::vector<std::string> variables = VariablesOf(named, model.is_regression);
    EXPECT_FALSE(variables.empty());
    EXPECT_EQ(VariablesOf(layers.model(), model.is_regression), variables) << model.name;
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
