#include "ml/nn/zoo.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "ml/graph/gradients.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/reference/reference_kernels.h"
#include "ml/nn/losses.h"

namespace shoal {
namespace {

struct Counts {
  int64_t trainable = 0;
  int64_t other = 0;
  Shape logits;
};

Counts CountParameters(const std::string& model, const Shape& image,
                       const zoo::ModelOptions& options) {
  Graph graph;
  GraphBuilder builder(&graph);
  Shape images({kUnknownDim});
  for (int64_t dim : image.dims()) images.AddDim(dim);
  const Output logits =
      zoo::Build(builder, model, builder.Placeholder("x", DataType::kFloat32, images), options);
  EXPECT_TRUE(builder.status().ok()) << builder.status();
  Counts counts;
  if (!logits.valid()) return counts;
  counts.logits = logits.shape();
  for (const auto& variable : graph.variables()) {
    (variable.spec.trainable ? counts.trainable : counts.other) +=
        variable.spec.shape.num_elements();
  }
  return counts;
}

// The counts are published: by Keras and torchvision for MobileNetV2, VGG-16 and the ResNets, in
// the text of the CIFAR-10 tutorial, in McMahan et al. 2017, and without biases in Sainath and
// Parada 2015.
TEST(ZooTest, ParameterCountsAreThoseOfTheDocumentation) {
  std::ifstream page("docs/zoo.md");
  int checked = 0;
  for (std::string line; std::getline(page, line);) {
    // "| `mlp` | [1, 28, 28] | 10 | 468,874 | dense 512 and 128 |"
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 7) continue;
    const std::vector<std::string> dims =
        absl::StrSplit(cells[2], absl::ByAnyChar("[], "), absl::SkipEmpty());
    Shape example;
    int64_t dim = 0, classes = 0, parameters = 0;
    for (const std::string& text : dims) {
      if (absl::SimpleAtoi(text, &dim)) example.AddDim(dim);
    }
    if (example.rank() == 0) continue;  // The head of the table, or a model of any size.
    ASSERT_TRUE(absl::SimpleAtoi(absl::StrReplaceAll(cells[4], {{",", ""}}), &parameters)) << line;
    const std::vector<std::string> name = absl::StrSplit(cells[1], '`');
    ASSERT_EQ(name.size(), 3u) << line;
    zoo::ModelOptions options;
    if (absl::SimpleAtoi(cells[3], &classes)) options.classes = classes;
    EXPECT_EQ(CountParameters(name[1], example, options).trainable, parameters) << line;
    ++checked;
  }
  EXPECT_GT(checked, 10);
}

// Keras' model counts as many.
TEST(ZooTest, MobileNetV2CountsItsMovingAveragesToo) {
  const Counts mobilenet = CountParameters("mobilenet_v2", {3, 224, 224}, zoo::ModelOptions());
  EXPECT_EQ(mobilenet.other, 34112);
  EXPECT_EQ(mobilenet.logits, Shape({kUnknownDim, 1000}));
}

TEST(ZooTest, TheCifar10CnnDecaysItsLocalLayers) {
  for (const auto& [decay, decayed] : {std::pair{0.0, 2}, {0.1, 5}}) {
    zoo::ModelOptions options;
    options.classes = 10;
    options.weight_decay = decay;
    Graph graph;
    GraphBuilder builder(&graph);
    zoo::Build(builder, "cifar10_cnn",
               builder.Placeholder("x", DataType::kFloat32, {kUnknownDim, 3, 24, 24}), options);
    EXPECT_EQ(graph.Collection(kRegularizationLosses).size(), static_cast<size_t>(decayed));
    EXPECT_EQ(graph.FindVariable("conv2/biases")->spec.initializer, ConstantInitializer(0.1));
    EXPECT_EQ(graph.FindVariable("local4/weights")->spec.initializer,
              TruncatedNormalInitializer(0, 0.04));
  }
}

// Keras counts 2,257,984, 706,224 and 4,363,712 without the top for widths 1, 0.5 and 1.4.
TEST(ZooTest, MobileNetV2TakesAnyWidthSizeAndNumberOfChannels) {
  zoo::ModelOptions options;
  options.classes = 10;
  const Counts base = CountParameters("mobilenet_v2", {3, 96, 96}, options);
  EXPECT_EQ(base.trainable + base.other, 2257984 + 1280 * 10 + 10);
  EXPECT_EQ(CountParameters("mobilenet_v2", {1, 28, 28}, options).trainable,
            base.trainable - 2 * 9 * 32);
  options.width_multiplier = 0.5;
  const Counts half = CountParameters("mobilenet_v2", {3, 75, 61}, options);
  EXPECT_EQ(half.trainable + half.other, 706224 + 1280 * 10 + 10);
  options.width_multiplier = 1.4;
  const Counts wide = CountParameters("mobilenet_v2", {3, 32, 32}, options);
  EXPECT_EQ(wide.trainable + wide.other, 4363712 + 1792 * 10 + 10);
}

TEST(ZooTest, MobileNetV2DenseHasTwoDenseLayers) {
  zoo::ModelOptions options;
  options.classes = 10;
  const int64_t features = 2257984 - 34112;
  EXPECT_EQ(CountParameters("mobilenet_v2_dense", {1, 28, 28}, options).trainable,
            features - 2 * 9 * 32 + 1280 * 512 + 512 + 512 * 10 + 10);
  EXPECT_EQ(CountParameters("mobilenet_v2_dense", {3, 96, 96}, options).trainable,
            features + 1280 * 512 + 512 + 512 * 10 + 10);
}

TEST(ZooTest, FeaturesAreTheModelWithoutItsLastLayer) {
  const std::pair<const char*, int64_t> models[] = {
      {"resnet50", 2048}, {"resnet18", 512}, {"mobilenet_v2", 1280}};
  for (const auto& [model, size] : models) {
    Graph graph;
    GraphBuilder builder(&graph);
    const Output x = builder.Placeholder("x", DataType::kFloat32, {kUnknownDim, 3, 64, 64});
    EXPECT_EQ(zoo::BuildFeatures(builder, model, x, {}).shape(), Shape({kUnknownDim, size}));
    Graph whole;
    GraphBuilder whole_builder(&whole);
    zoo::Build(whole_builder, model,
               whole_builder.Placeholder("x", DataType::kFloat32, {kUnknownDim, 3, 64, 64}), {});
    ASSERT_EQ(graph.variables().size() + 2, whole.variables().size());
    for (size_t i = 0; i < graph.variables().size(); ++i) {
      EXPECT_EQ(graph.variables()[i].spec.name, whole.variables()[i].spec.name);
    }
  }
}

TEST(ZooTest, AnUnknownNameIsAnErrorOfTheGraph) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", DataType::kFloat32, {kUnknownDim, 4});
  EXPECT_FALSE(zoo::Build(builder, "no such model", x, {}).valid());
  EXPECT_EQ(builder.status().message(), "no model has the name no such model");
}

double NormOf(const Tensor& tensor) {
  double sum = 0;
  for (float v : tensor.span<float>()) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

// Loss and gradients of the CPU kernels, fused and laid out, against plain loops. Rounding is
// amplified by batch norm over few examples; where a gradient is zero but for rounding (offsets in
// front of a batch norm), differences count as shares of the largest gradient.
struct AgreementCase {
  const char* model;
  int64_t size;
  double tolerance;  // elements at the kinks of ReLU6 fall to either side
};
class ZooAgreementTest : public testing::TestWithParam<AgreementCase> {};

TEST_P(ZooAgreementTest, CpuKernelsAgreeWithPlainLoops) {
  zoo::ModelOptions options;
  options.classes = 5;
  options.width_multiplier = 0.35;
  Graph graph;
  GraphBuilder builder(&graph);
  const int64_t size = GetParam().size;
  const Output images = builder.Placeholder("x", DataType::kFloat32, {kUnknownDim, 3, size, size});
  const Output labels = builder.Placeholder("labels", DataType::kInt32, {kUnknownDim});
  const Output logits = zoo::Build(builder, GetParam().model, images, options);
  std::vector<Output> fetches = {
      AddLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, logits, labels)};
  const auto gradients = BuildGradients(builder, fetches[0], graph.Collection(kTrainableVariables));
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  const std::vector<std::pair<Output, Tensor>> feeds = {
      {images, RandomTensor(DataType::kFloat32, {6, 3, size, size}, 3)},
      {labels, Tensor::Of<int32_t>({6}, {0, 1, 2, 3, 4, 1})}};
  const std::vector<Tensor> variables = InitialValues(graph, 17);
  const auto expected = RunGraph(graph, ReferenceKernelBackend(), feeds, variables, fetches);
  const auto got = RunGraph(graph, CpuKernelBackend(), feeds, variables, fetches);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  double largest = 0;
  for (const Tensor& gradient : *expected) largest = std::max(largest, NormOf(gradient));
  for (size_t i = 0; i < got->size(); ++i) {
    const double norm = NormOf((*expected)[i]);
    const double distance = RelativeDistance((*got)[i], (*expected)[i]) * norm;
    EXPECT_LE(distance, GetParam().tolerance * (norm + 0.01 * largest)) << "fetch " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ZooAgreementTest,
                         testing::Values(AgreementCase{"mobilenet_v2", 32, 2e-2},
                                         AgreementCase{"resnet18", 16, 2e-3},
                                         AgreementCase{"cifar10_cnn", 24, 1e-5},
                                         AgreementCase{"lenet5", 28, 1e-5},
                                         AgreementCase{"cnn_trad_fpool3", 40, 1e-5}));

}  // namespace
}  // namespace shoal
