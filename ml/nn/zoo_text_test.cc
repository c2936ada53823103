// The files of ml/nn/zoo_text say the same models as the names.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "ml/nn/model_builder.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

struct ZooText {
  const char* name;
  Shape example;
  int64_t classes;  // 0: a regression
};

void PrintTo(const ZooText& text, std::ostream* os) { *os << text.name; }

// Everything that is computed, without the names of nodes that are not variables.
std::vector<std::string> StructureOf(const v1::ModelConfig& config, const ZooText& text,
                                     bool is_training) {
  const bool is_regression = text.classes == 0;
  const TensorSpec target = is_regression ? TensorSpec{DataType::kFloat32, Shape({1})}
                                          : TensorSpec{DataType::kInt32, Shape()};
  const std::vector<FieldSpec> fields = {
      {kInputField, {DataType::kFloat32, text.example}},
      {is_regression ? kTargetField : kLabelField, {target.dtype, target.shape}}};
  const auto model = MakeModel(config, fields, is_regression ? 1 : text.classes);
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<std::string> structure;
  if (!model.ok()) return structure;
  Graph graph;
  GraphBuilder builder(&graph);
  InputQueue queue(fields);
  (*model)(builder, queue.Dequeue(builder), is_training);
  EXPECT_TRUE(builder.status().ok()) << builder.status();
  for (const auto& node : graph.nodes()) {
    std::string line = absl::StrCat(node->op, " ", node->attributes.ToString());
    for (const Output& input : node->inputs) {
      absl::StrAppend(&line, " ", input.node->id, ":", input.index);
    }
    for (const TensorSpec& output : node->outputs) {
      absl::StrAppend(&line, " -> ", DataTypeName(output.dtype), output.shape.ToString());
    }
    if (node->variable_index >= 0) {
      const VariableSpec& spec = graph.variables()[node->variable_index].spec;
      absl::StrAppend(&line, " ", spec.name, " trainable ", spec.trainable, " decay ", spec.decay,
                      " initializer ", static_cast<int>(spec.initializer.kind), " ",
                      spec.initializer.a, " ", spec.initializer.b);
    }
    structure.push_back(std::move(line));
  }
  for (const char* collection : {kLosses, kRegularizationLosses, kUpdateOps, kTrainableVariables}) {
    std::string line = collection;
    for (const Output& output : graph.Collection(collection)) {
      absl::StrAppend(&line, " ", output.node->id);
    }
    structure.push_back(std::move(line));
  }
  return structure;
}

class ZooTextTest : public testing::TestWithParam<ZooText> {};

TEST_P(ZooTextTest, TextIsTheSameGraphAsTheName) {
  const ZooText& text = GetParam();
  std::ifstream file(absl::StrCat("ml/nn/zoo_text/", text.name, ".textproto"));
  ASSERT_TRUE(file.good()) << text.name;
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  v1::ModelConfig layers, named;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(content, &layers));
  named.set_name(text.name);
  for (double weight_decay : {0.0, 0.001}) {
    layers.set_weight_decay(weight_decay);
    named.set_weight_decay(weight_decay);
    for (bool is_training : {true, false}) {
      const std::vector<std::string> expected = StructureOf(named, text, is_training);
      ASSERT_GT(expected.size(), 5u);
      EXPECT_EQ(StructureOf(layers, text, is_training), expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, ZooTextTest,
    testing::Values(ZooText{"softmax_regression", {1, 28, 28}, 10}, ZooText{"linear", {5}, 0},
                    ZooText{"mlp", {1, 28, 28}, 10}, ZooText{"seed_mlp", {600}, 0},
                    ZooText{"fashion_cnn", {1, 28, 28}, 10}, ZooText{"lenet5", {1, 28, 28}, 10},
                    ZooText{"cifar10_cnn", {3, 24, 24}, 10}, ZooText{"vgg16", {3, 224, 224}, 1000},
                    ZooText{"speech_conv", {1, 98, 40}, 12},
                    ZooText{"cnn_trad_fpool3", {1, 32, 40}, 4},
                    ZooText{"mobilenet_v2", {3, 224, 224}, 1000},
                    ZooText{"mobilenet_v2_dense", {3, 96, 96}, 10},
                    ZooText{"resnet18", {3, 224, 224}, 1000},
                    ZooText{"resnet50", {3, 224, 224}, 1000}));

}  // namespace
}  // namespace shoal
