// Tests layers without a ModelConfig: their values on the CPU against the reference kernels, and
// the variables that clones share.
#include "ml/nn/layers.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "ml/graph/gradients.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/reference/reference_kernels.h"
#include "ml/nn/losses.h"

namespace shoal {
namespace {

constexpr DataType kFloat = DataType::kFloat32;

// The outputs, then the gradients of the first one's sum by all variables, on both backends.
void ExpectCpuAgreesWithReference(Graph& graph, GraphBuilder& builder, std::vector<Output> fetches,
                                  const std::vector<std::pair<Output, Tensor>>& feeds) {
  ASSERT_TRUE(builder.status().ok()) << builder.status();
  const Output loss = ops::ReduceSum(builder, ops::Square(builder, fetches[0]));
  const auto gradients = BuildGradients(builder, loss, graph.Collection(kTrainableVariables));
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  const std::vector<Tensor> variables = InitialValues(graph, 3);
  const auto expected = RunGraph(graph, ReferenceKernelBackend(), feeds, variables, fetches);
  const auto got = RunGraph(graph, CpuKernelBackend(), feeds, variables, fetches);
  ASSERT_TRUE(expected.ok() && got.ok()) << expected.status() << got.status();
  for (size_t i = 0; i < got->size(); ++i) {
    EXPECT_LE(RelativeDistance((*got)[i], (*expected)[i]), 2e-5) << "fetch " << i;
  }
}

TEST(LayersTest, DenseLayersOfAllActivationsAgreeWithPlainLoops) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kFloat, {kUnknownDim, 12});
  std::vector<Output> outputs;
  for (Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kRelu6, Activation::kLeakyRelu,
        Activation::kElu, Activation::kGelu, Activation::kSilu, Activation::kSigmoid,
        Activation::kSoftmax, Activation::kSoftplus, Activation::kTanh}) {
    outputs.push_back(Dense(builder, x, {20, activation}));
  }
  const Output all = ops::Concat(builder, outputs, 1);
  ExpectCpuAgreesWithReference(graph, builder, {all},
                               {{x, RandomTensor(kFloat, {9, 12}, 5, -6, 6)}});
}

TEST(LayersTest, Relu6IsPartOfTheDenseStep) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kFloat, {4, 12});
  const Output y = Dense(builder, x, {20, Activation::kRelu6});
  const auto gradients =
      BuildGradients(builder, ops::ReduceSum(builder, y), graph.Collection(kTrainableVariables));
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const KernelBackend backend = CpuKernelBackend();
  const auto executable = Compile(MakeRequest(graph, backend, {{x, Tensor(kFloat, {4, 12})}},
                                              {y, (*gradients)[0], (*gradients)[1]}));
  ASSERT_TRUE(executable.ok()) << executable.status();
  const std::string text = (*executable)->ToString();
  EXPECT_TRUE(absl::StrContains(text, "= Dense(")) << text;
  EXPECT_TRUE(absl::StrContains(text, "= DenseGrad(")) << text;
  EXPECT_FALSE(absl::StrContains(text, "= Clip")) << text;
}

TEST(LayersTest, EmbeddingsAreRowsAndRepeatedIdsAddTheirGradients) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output ids = builder.Placeholder("ids", DataType::kInt32, {kUnknownDim, 3});
  const Output vectors = Embedding(builder, ids, {.rows = 7, .units = 5});
  EXPECT_EQ(vectors.shape().ToString(), "[?,3,5]");
  EXPECT_EQ(graph.FindVariable("Embedding/embeddings")->spec.shape, Shape({7, 5}));
  ExpectCpuAgreesWithReference(graph, builder, {vectors},
                               {{ids, Tensor::Of<int32_t>({2, 3}, {6, 0, 6, 2, 6, 0})}});
}

TEST(LayersTest, AnIdOutOfRangeGivesNaN) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output ids = builder.Placeholder("ids", kFloat, {2});
  const Output vectors = Embedding(builder, ids, {.rows = 7, .units = 2});
  const auto got =
      RunGraph(graph, CpuKernelBackend(), {{ids, Tensor::Of<float>({2}, {6.0f, 7.0f})}},
               InitialValues(graph, 3), {vectors});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(std::isfinite((*got)[0].span<float>()[1]));
  EXPECT_TRUE(std::isnan((*got)[0].span<float>()[2]));
}

TEST(LayersTest, ReshapeSqueezeSliceAndPadAgreeWithPlainLoops) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kFloat, {kUnknownDim, 12});
  Output y = Dense(builder, x, {24});
  y = ReshapeExamples(builder, y, {2, -1, 4});
  y = ops::Pad(builder, y, {0, 0, 1, 0, 0, 1, 0, 2}, 0.5);
  y = ops::Slice(builder, y, {1, -4}, {3, 100}, {1, 3});
  y = ops::Squeeze(builder, ops::Slice(builder, y, {0}, {1}, {1}), {1});
  y = ops::Transpose(builder, ops::Unsqueeze(builder, y, {1}), {0, 3, 1, 2});
  const std::vector<Output> parts = ops::Split(builder, y, 1, {1, 3});
  y = ops::Concat(builder, {parts[1], ops::Scale(builder, parts[0], 2)}, 1);
  EXPECT_EQ(y.shape().ToString(), "[?,4,1,4]");
  ExpectCpuAgreesWithReference(graph, builder, {y}, {{x, RandomTensor(kFloat, {5, 12}, 5)}});
}

TEST(LayersTest, AttentionAgreesWithPlainLoops) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kFloat, {kUnknownDim, 12});
  const Output q = ReshapeExamples(builder, Dense(builder, x, {24}), {6, 4});
  const Output k = ReshapeExamples(builder, Dense(builder, x, {24}), {6, 4});
  const Output scores =
      Activate(builder, ops::MatMul(builder, q, k, false, true), Activation::kSoftmax);
  const Output y = ops::MatMul(builder, scores, k);
  ExpectCpuAgreesWithReference(graph, builder, {y}, {{x, RandomTensor(kFloat, {5, 12}, 5)}});
}

// Ones through a dropout, in clones of these sizes on one seed.
std::vector<float> DroppedInClones(const std::vector<int64_t>& clone_examples) {
  constexpr int64_t kSize = 100;
  Graph graph;
  GraphBuilder builder(&graph);
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> fetches;
  for (size_t i = 0; i < clone_examples.size(); ++i) {
    const auto clone = builder.WithClone(static_cast<int>(i));
    const auto variables = builder.ReenterVariableScope(i == 0 ? Reuse::kCreate : Reuse::kReuse);
    const Output x = builder.Placeholder("x", kFloat, {kUnknownDim, kSize});
    feeds.emplace_back(x, RandomTensor(kFloat, {clone_examples[i], kSize}, 1, 1, 1));
    fetches.push_back(Dropout(builder, Dropout(builder, x, {.rate = 0.3}), {.rate = 0.2}));
  }
  const KernelBackend backend = CpuKernelBackend();
  CompileRequest request = MakeRequest(graph, backend, feeds, fetches);
  request.clone_examples = clone_examples;
  const auto executable = Compile(request);
  EXPECT_TRUE(executable.ok()) << executable.status();
  std::vector<float> all;
  for (const Tensor& part : RunOnce(executable->get(), feeds, {})) {
    all.insert(all.end(), part.span<float>().begin(), part.span<float>().end());
  }
  return all;
}

TEST(LayersTest, DropoutDoesNotDependOnTheNumberOfClones) {
  const std::vector<float> whole = DroppedInClones({9});
  EXPECT_EQ(DroppedInClones({5, 4}), whole);
  EXPECT_EQ(DroppedInClones({3, 3, 2, 1}), whole);
  double dropped = 0;
  for (float v : whole) dropped += v == 0 ? 1 : 0;
  // Two layers with masks of their own: 1 - 0.7 * 0.8.
  EXPECT_NEAR(dropped / static_cast<double>(whole.size()), 0.44, 0.07);
}

TEST(LayersTest, DropoutIsNothingOutsideTraining) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kFloat, {4, 12});
  EXPECT_EQ(Dropout(builder, x, {.rate = 0.5, .is_training = false}), x);
  EXPECT_EQ(Dropout(builder, x, {.rate = 0}), x);
}

TEST(LayersTest, MistakesNameTheLayerAndTheField) {
  const auto error_of = [](auto build) {
    Graph graph;
    GraphBuilder builder(&graph);
    build(builder, builder.Placeholder("x", kFloat, {kUnknownDim, 12}));
    return std::string(builder.status().message());
  };
  EXPECT_EQ(error_of([](GraphBuilder& b, Output x) { Dropout(b, x, {.rate = 1}); }),
            "Dropout/ rate: must be in [0, 1), is 1");
  EXPECT_EQ(error_of([](GraphBuilder& b, Output x) { Embedding(b, x, {.rows = 3}); }),
            "Embedding/ units: must be positive, is 0");
  const std::string slice =
      error_of([](GraphBuilder& b, Output x) { ops::Slice(b, x, {0}, {1}, {2}); });
  EXPECT_TRUE(absl::StrContains(slice, "must name different axes of 2")) << slice;
  const std::string pad = error_of([](GraphBuilder& b, Output x) { ops::Pad(b, x, {0, -1}); });
  EXPECT_TRUE(absl::StrContains(pad, "pads must be 4 numbers >= 0")) << pad;
  const std::string clip = error_of([](GraphBuilder& b, Output x) { ops::Clip(b, x, 2, 1); });
  EXPECT_TRUE(absl::StrContains(clip, "min 2 is above max 1")) << clip;
}

double LossOf(LossKind kind, double smoothing, const Tensor& labels) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kFloat, {2, 3});
  const Output t = builder.Placeholder("t", labels.dtype(), labels.shape());
  const Output loss = smoothing > 0 ? AddSoftmaxCrossEntropyLoss(builder, x, t, smoothing)
                                    : AddLoss(builder, kind, x, t);
  const auto got = RunGraph(
      graph, CpuKernelBackend(),
      {{x, Tensor::Of<float>({2, 3}, {0.6f, 0.8f, 0, -1, 0, 2})}, {t, labels}}, {}, {loss});
  EXPECT_TRUE(got.ok()) << got.status();
  return got.ok() ? (*got)[0].span<float>()[0] : NAN;
}

TEST(LossesTest, SmoothedClassesAreSmoothedDistributions) {
  const Tensor classes = Tensor::Of<int32_t>({2}, {1, 0});
  const Tensor hot = Tensor::Of<float>({2, 3}, {0, 1, 0, 1, 0, 0});
  const double by_class = LossOf(LossKind::kSparseSoftmaxCrossEntropy, 0.1, classes);
  EXPECT_NEAR(by_class, LossOf(LossKind::kSoftmaxCrossEntropy, 0.1, hot), 1e-6);
  EXPECT_GT(std::abs(by_class - LossOf(LossKind::kSoftmaxCrossEntropy, 0, hot)), 1e-3);
}

TEST(LossesTest, CosineDistanceIsOneMinusTheProductOfUnitVectors) {
  const Tensor labels = Tensor::Of<float>({2, 3}, {0.6f, 0.8f, 0, 1, 0, 0});
  EXPECT_NEAR(LossOf(LossKind::kCosineDistance, 0, labels), 1 - (1.0 - 1.0) / 2, 1e-6);
}

}  // namespace
}  // namespace shoal
