// Compares the gradient function of every op with numeric differences, in float64 on the reference
// kernels.
#include "ml/graph/gradients.h"

#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/op_definition.h"
#include "ml/graph/ops.h"
#include "ml/kernels/reference/reference_kernels.h"

namespace shoal {
namespace {

constexpr DataType kDouble = DataType::kFloat64;
using Ints = std::vector<int64_t>;

struct Case {
  std::string op;
  std::vector<Shape> inputs;  // float64, differentiated
  Attributes attributes = {};
  double low = -1;
  double high = 1;
  int num_outputs = 1;              // outputs that the loss depends on
  std::vector<Tensor> labels = {};  // further inputs, not differentiated
  bool labels_first = false;        // before the others
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op << " " << c.attributes.ToString(); }

Tensor Labels(std::initializer_list<int32_t> classes) {
  return Tensor::Of<int32_t>({static_cast<int64_t>(classes.size())}, classes);
}

// A graph with a variable for each input, the op, and a loss that is a sum of its outputs with
// random weights.
class GradientCheck {
 public:
  explicit GradientCheck(const Case& c) : builder_(&graph_) {
    std::vector<Output> inputs = MakeVariables(c);
    std::vector<Output> fed;
    for (const Tensor& labels : c.labels) {
      fed.push_back(builder_.Placeholder("labels", labels.dtype(), labels.shape()));
      feeds_.emplace_back(fed.back(), labels);
    }
    inputs.insert(c.labels_first ? inputs.begin() : inputs.end(), fed.begin(), fed.end());
    const Node* node = builder_.AddNode(c.op, inputs, c.attributes);
    if (node == nullptr) return;
    std::vector<Output> parts;
    for (int i = 0; i < c.num_outputs; ++i) parts.push_back(Weighed({node, i}));
    fetches_ = {ops::AddN(builder_, parts)};
    const auto gradients = BuildGradients(builder_, fetches_[0], Variables());
    if (!gradients.ok()) return;
    fetches_.insert(fetches_.end(), gradients->begin(), gradients->end());
  }

  // The largest difference of a gradient's element, relative to 1 + its size.
  double LargestError() {
    EXPECT_TRUE(builder_.status().ok()) << builder_.status();
    EXPECT_GT(fetches_.size(), 1u) << "no gradients";
    for (const Output& fetch : fetches_) EXPECT_TRUE(fetch.valid()) << "an input without gradient";
    if (testing::Test::HasFailure()) return 1;
    const auto executable = Compile(MakeRequest(graph_, backend_, feeds_, fetches_));
    EXPECT_TRUE(executable.ok()) << executable.status();
    if (!executable.ok()) return 1;
    const std::vector<Tensor> results = RunOnce(executable->get(), feeds_, values_);
    double largest = 0;
    for (size_t v = 0; v < values_.size(); ++v) {
      EXPECT_EQ(results[1 + v].shape(), values_[v].shape());
      for (int64_t i = 0; i < values_[v].shape().num_elements(); ++i) {
        const double numeric = NumericGradient(executable->get(), v, i);
        const double analytic = results[1 + v].span<double>()[i];
        largest = std::max(largest, std::abs(numeric - analytic) / (1 + std::abs(numeric)));
      }
    }
    return largest;
  }

 private:
  std::vector<Output> MakeVariables(const Case& c) {
    std::vector<Output> inputs;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      VariableSpec spec;
      spec.name = absl::StrCat("x", i);
      spec.shape = c.inputs[i];
      spec.dtype = kDouble;
      inputs.push_back(builder_.GetVariable(spec));
      values_.push_back(RandomTensor(kDouble, c.inputs[i], 100 + i, c.low, c.high));
    }
    return inputs;
  }

  std::vector<Output> Variables() const { return graph_.Collection(kTrainableVariables); }

  Output Weighed(Output y) {
    const Output weights = builder_.Placeholder("weights", kDouble, y.shape());
    feeds_.emplace_back(weights, RandomTensor(kDouble, y.shape(), 200 + feeds_.size(), 0.5, 2));
    return ops::ReduceSum(builder_, ops::Mul(builder_, y, weights));
  }

  double NumericGradient(Executable* executable, size_t variable, int64_t element) {
    constexpr double kStep = 1e-5;
    double& x = values_[variable].mutable_span<double>()[element];
    const double original = x;
    x = original + kStep;
    const double above = RunOnce(executable, feeds_, values_)[0].span<double>()[0];
    x = original - kStep;
    const double below = RunOnce(executable, feeds_, values_)[0].span<double>()[0];
    x = original;
    return (above - below) / (2 * kStep);
  }

  KernelBackend backend_ = ReferenceKernelBackend();
  Graph graph_;
  GraphBuilder builder_;
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::vector<Tensor> values_;
  std::vector<Output> fetches_;
};

std::vector<Case> ElementwiseCases() {
  std::vector<Case> cases;
  for (const char* op : {"Abs", "Exp", "Identity", "LogSoftmax", "Neg", "Relu", "Sigmoid",
                         "Softmax", "Square", "Tanh", "L2Loss", "Statistic"}) {
    if (FindOp(op)->gradient != nullptr) cases.push_back({op, {{3, 4}}});
  }
  for (const char* op : {"Log", "Reciprocal", "Sqrt"}) {
    cases.push_back({op, {{3, 4}}, {}, 0.5, 2});
  }
  for (const char* op : {"Add", "Maximum", "Minimum", "Mul", "Sub"}) {
    for (const Shape& b : {Shape({2, 3}), Shape({3}), Shape(), Shape({2, 1})}) {
      cases.push_back({op, {{2, 3}, b}});
      cases.push_back({op, {b, {2, 3}}});
    }
  }
  cases.push_back({"Div", {{2, 3}, {3}}, {}, 0.5, 2});
  cases.push_back({"Div", {{1, 3}, {2, 1}}, {}, 0.5, 2});
  cases.push_back({"AddN", {{2, 3}, {2, 3}, {2, 3}}});
  cases.push_back({"Scale", {{2, 3}}, {{"factor", -2.5}}});
  return cases;
}

std::vector<Case> ActivationCases() {
  std::vector<Case> cases;
  for (const char* op : {"Erf", "Gelu", "LeakyRelu", "Elu", "Silu", "Softplus"}) {
    cases.push_back({op, {{3, 4}}, {}, -2, 2});
  }
  cases.push_back({"Clip", {{3, 4}}, {{"min", -0.5}, {"max", 0.25}}});
  cases.push_back({"Elu", {{3, 4}}, {{"alpha", 0.6}}});
  cases.push_back({"Gelu", {{3, 4}}, {{"approximate", std::string("tanh")}}, -2, 2});
  cases.push_back({"LeakyRelu", {{3, 4}}, {{"alpha", 0.3}}});
  cases.push_back({"Pow", {{2, 3}, {2, 3}}, {}, 0.5, 2});
  cases.push_back({"Pow", {{2, 3}, {}}, {}, 0.5, 2});
  cases.push_back({"Pow", {{3}, {2, 1}}, {}, 0.5, 2});
  const Tensor bits = Tensor::Of<bool>({2, 3}, {true, false, true, false, false, true});
  const Tensor row = Tensor::Of<bool>({3}, {true, false, true});
  cases.push_back({"Where", {{2, 3}, {2, 3}}, {}, -1, 1, 1, {bits}, true});
  cases.push_back({"Where", {{2, 1}, {}}, {}, -1, 1, 1, {bits}, true});
  cases.push_back({"Where", {{2, 3}, {2, 1}}, {}, -1, 1, 1, {row}, true});
  return cases;
}

std::vector<Case> ShapeCases() {
  return {
      {"ReduceSum", {{2, 3, 4}}},
      {"ReduceSum", {{2, 3, 4}}, {{"axes", Ints{0, 2}}}},
      {"ReduceSum", {{2, 3, 4}}, {{"axes", Ints{-1}}, {"keepdims", true}}},
      {"ReduceMean", {{2, 3, 4}}},
      {"ReduceMean", {{2, 3, 4}}, {{"axes", Ints{1}}}},
      {"Reshape", {{2, 6}}, {{"shape", Ints{3, -1}}}},
      {"Transpose", {{2, 3, 4}}, {{"perm", Ints{2, 0, 1}}}},
      {"Concat", {{2, 3}, {2, 1}, {2, 2}}, {{"axis", int64_t{1}}}},
      {"Concat", {{2, 3}, {1, 3}}, {{"axis", int64_t{0}}}},
      {"Split", {{2, 6}}, {{"axis", int64_t{1}}, {"split", Ints{1, 3, 2}}}, -1, 1, 3},
      {"Split", {{2, 6}}, {{"axis", int64_t{1}}, {"split", Ints{1, 3, 2}}}, -1, 1, 2},
      {"Cast", {{2, 3}}, {{"to", static_cast<int64_t>(kDouble)}}},
  };
}

std::vector<Case> ArrayCases() {
  const Tensor rows = Tensor::Of<int32_t>({2, 2}, {1, 3, 1, 0});
  return {
      {"Slice", {{4, 5}}, {{"starts", Ints{1}}, {"ends", Ints{3}}}},
      {"Slice", {{4, 5}}, {{"starts", Ints{-2}}, {"ends", Ints{9}}, {"axes", Ints{1}}}},
      {"Slice", {{4, 5}}, {{"starts", Ints{0, 0}}, {"ends", Ints{4, 5}}}},
      {"Pad", {{2, 3}}, {{"pads", Ints{1, 0, 2, 3}}, {"value", 4.0}}},
      {"Squeeze", {{2, 1, 3}}, {{"axes", Ints{1}}}},
      {"Unsqueeze", {{2, 3}}, {{"axes", Ints{0, -1}}}},
      {"Gather", {{4, 3}}, {}, -1, 1, 1, {rows}},
      {"EmbeddingBag", {{4, 3}}, {}, -1, 1, 1, {Labels({3, 0, 3, 1}), Labels({0, 2, 2, 4})}},
      {"EmbeddingBag",
       {{4, 3}},
       {{"mean", true}},
       -1,
       1,
       1,
       {Labels({3, 0, 3, 1}), Labels({1, 3, 4}), Tensor::Of<double>({4}, {1, 0.5, 2, -1})}},
      {"PairwiseDots", {{2, 3}, {2, 3}, {2, 3}}},
      {"FactorizationMachine", {{2, 3}, {2, 3}, {2, 3}}},
      {"ReduceMax", {{2, 3, 4}}, {{"axes", Ints{1}}}},
      {"ReduceMax", {{2, 3, 4}}},
      {"ReduceMin", {{2, 3, 4}}, {{"axes", Ints{0, 2}}, {"keepdims", true}}},
      {"Dropout", {{4, 70}}, {{"rate", 0.3}, {"op_id", int64_t{5}}}},
  };
}

std::vector<Case> MatMulCases() {
  std::vector<Case> cases;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const Attributes form{{"transpose_a", ta}, {"transpose_b", tb}};
      const Shape batch = ta ? Shape({2, 4, 3}) : Shape({2, 3, 4});
      cases.push_back({"MatMul", {batch, tb ? Shape({2, 2, 4}) : Shape({2, 4, 2})}, form});
      cases.push_back({"MatMul", {batch, tb ? Shape({2, 4}) : Shape({4, 2})}, form});
      cases.push_back({"MatMul",
                       {ta ? Shape({4, 3}) : Shape({3, 4}), tb ? Shape({2, 4}) : Shape({4, 2})},
                       {{"transpose_a", ta}, {"transpose_b", tb}}});
    }
  }
  return cases;
}

std::vector<Case> ImageCases() {
  const Attributes padded{{"strides", Ints{2, 1}}, {"pads", Ints{1, 2, 0, 1}}};
  const Attributes grouped{{"group", int64_t{2}}, {"pads", Ints{1, 1, 1, 1}}};
  const Attributes stretched{
      {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 0, 1}}, {"output_padding", Ints{1, 0}}};
  const Attributes dilated{{"dilations", Ints{2, 2}}};
  const Attributes pool{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}};
  const Attributes overlapping{
      {"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 1, 1, 0}}};
  return {
      {"Conv", {{2, 3, 5, 4}, {4, 3, 3, 2}, {4}}, padded},
      {"Conv", {{2, 3, 5, 4}, {4, 3, 3, 2}}, padded},
      {"Conv", {{1, 4, 4, 4}, {6, 2, 3, 3}, {6}}, grouped},
      {"Conv", {{1, 2, 6, 6}, {2, 2, 3, 3}, {2}}, dilated},
      {"MaxPool", {{2, 3, 4, 6}}, pool},
      {"MaxPool", {{2, 2, 5, 4}}, overlapping},
      {"AveragePool", {{2, 3, 4, 6}}, pool},
      {"AveragePool", {{2, 2, 5, 4}}, overlapping},
      {"GlobalAveragePool", {{2, 3, 2, 4}}},
      {"GlobalMaxPool", {{2, 3, 2, 4}}},
      {"ConvTranspose", {{2, 3, 3, 2}, {3, 2, 3, 2}, {2}}, stretched},
      {"ConvTranspose", {{1, 4, 3, 3}, {4, 2, 3, 3}}, grouped},
      {"LayerNorm", {{3, 5}, {5}, {5}}},
      {"LayerNorm", {{2, 3, 4}, {3, 4}, {3, 4}}, {{"axis", int64_t{1}}}},
      {"LocalResponseNorm", {{2, 5, 2, 2}}, {{"depth_radius", int64_t{1}}, {"alpha", 0.4}}},
  };
}

std::vector<Case> LossCases() {
  const Tensor probabilities = Tensor::Of<double>({2, 3}, {0.2, 0.5, 0.3, 1, 0, 0});
  const Tensor bits = Tensor::Of<double>({2, 3}, {1, 0, 1, 0, 0, 1});
  const Tensor targets = Tensor::Of<double>({2, 3}, {3, -2, 0.4, -1.5, 2, 0.1});
  const Tensor wide = RandomTensor(kDouble, {4, 5}, 9);
  const Attributes smooth{{"label_smoothing", 0.1}};
  return {
      {"SparseSoftmaxCrossEntropy", {{3, 4}}, {}, -1, 1, 1, {Labels({1, 3, 0})}},
      {"SparseSoftmaxCrossEntropy", {{3, 4}}, smooth, -1, 1, 1, {Labels({1, 3, 0})}},
      {"SoftmaxCrossEntropy", {{2, 3}}, {}, -1, 1, 1, {probabilities}},
      {"SigmoidCrossEntropy", {{2, 3}}, {}, -2, 2, 1, {bits}},
      {"LogLoss", {{2, 3}}, {}, 0.1, 0.9, 1, {bits}},
      {"AbsoluteDifference", {{2, 3}}, {}, -1, 1, 1, {targets}},
      {"Hinge", {{2, 3}}, {}, -3, 3, 1, {bits}},
      {"Huber", {{2, 3}}, {}, -1, 1, 1, {targets}},
      {"Huber", {{2, 3}}, {{"delta", 0.5}}, -1, 1, 1, {targets}},
      {"MeanSquaredError", {{2, 3}}, {}, -1, 1, 1, {targets}},
      {"MeanSquaredError", {{4, 1}}, {}, -1, 1, 1, {wide}},
      {"MeanSquaredError", {{5}}, {}, -1, 1, 1, {wide}},
  };
}

class GradientsTest : public testing::TestWithParam<Case> {};

TEST_P(GradientsTest, IsTheNumericDerivative) {
  GradientCheck check(GetParam());
  EXPECT_LT(check.LargestError(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Elementwise, GradientsTest, testing::ValuesIn(ElementwiseCases()));
INSTANTIATE_TEST_SUITE_P(Activations, GradientsTest, testing::ValuesIn(ActivationCases()));
INSTANTIATE_TEST_SUITE_P(Arrays, GradientsTest, testing::ValuesIn(ArrayCases()));
INSTANTIATE_TEST_SUITE_P(Shapes, GradientsTest, testing::ValuesIn(ShapeCases()));
INSTANTIATE_TEST_SUITE_P(MatMul, GradientsTest, testing::ValuesIn(MatMulCases()));
INSTANTIATE_TEST_SUITE_P(Images, GradientsTest, testing::ValuesIn(ImageCases()));
INSTANTIATE_TEST_SUITE_P(Losses, GradientsTest, testing::ValuesIn(LossCases()));

// Batch norm's moving averages have no gradient, so they are fed; x, scale and offset have one.
class BatchNormGradientTest : public testing::TestWithParam<Shape> {};

TEST_P(BatchNormGradientTest, IsTheNumericDerivative) {
  Graph graph;
  GraphBuilder builder(&graph);
  std::vector<Tensor> values = {RandomTensor(kDouble, GetParam(), 1, -1, 2),
                                RandomTensor(kDouble, {3}, 2, 0.5, 2),
                                RandomTensor(kDouble, {3}, 3)};
  std::vector<Output> inputs;
  for (const Tensor& value : values) {
    VariableSpec spec;
    spec.name = absl::StrCat("x", inputs.size());
    spec.shape = value.shape();
    spec.dtype = kDouble;
    inputs.push_back(builder.GetVariable(spec));
  }
  const std::vector<Output> variables = inputs;
  std::vector<std::pair<Output, Tensor>> feeds;
  for (int i = 0; i < 2; ++i) {
    feeds.emplace_back(builder.Placeholder("moving", kDouble, {3}),
                       RandomTensor(kDouble, {3}, 4, 1, 2));
    inputs.push_back(feeds.back().first);
  }
  feeds.emplace_back(builder.Placeholder("weights", kDouble, GetParam()),
                     RandomTensor(kDouble, GetParam(), 6));
  const Output y = builder.Op("BatchNorm", inputs, {{"training", true}, {"epsilon", 1e-3}});
  std::vector<Output> fetches = {ops::ReduceSum(builder, ops::Mul(builder, y, feeds.back().first))};
  const auto gradients = BuildGradients(builder, fetches[0], variables);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  const KernelBackend backend = ReferenceKernelBackend();
  const auto executable = Compile(MakeRequest(graph, backend, feeds, fetches));
  ASSERT_TRUE(executable.ok()) << executable.status();
  const std::vector<Tensor> results = RunOnce(executable->get(), feeds, values);
  constexpr double kStep = 1e-5;
  for (size_t v = 0; v < values.size(); ++v) {
    for (int64_t i = 0; i < values[v].shape().num_elements(); ++i) {
      double& x = values[v].mutable_span<double>()[i];
      const double original = x;
      x = original + kStep;
      const double above = RunOnce(executable->get(), feeds, values)[0].span<double>()[0];
      x = original - kStep;
      const double below = RunOnce(executable->get(), feeds, values)[0].span<double>()[0];
      x = original;
      EXPECT_NEAR(results[1 + v].span<double>()[i], (above - below) / (2 * kStep), 1e-6)
          << "input " << v << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, BatchNormGradientTest,
                         testing::Values(Shape({6, 3}), Shape({2, 3, 2, 3})));

TEST(GradientCoverageTest, EveryDifferentiableOpIsChecked) {
  std::set<std::string> checked = {"BatchNorm", "SumTo", "BroadcastTo"};  // see below
  for (const auto& cases : {ElementwiseCases(), ActivationCases(), ArrayCases(), ShapeCases(),
                            MatMulCases(), ImageCases(), LossCases()}) {
    for (const Case& c : cases) checked.insert(c.op);
  }
  for (const std::string& op : ReferenceKernelOps()) {
    const OpDefinition* definition = FindOp(op);
    if (definition == nullptr || definition->gradient == nullptr) continue;
    EXPECT_EQ(checked.count(op), 1u) << op;
  }
}

// SumTo and BroadcastTo take their shape from another value.
TEST(BuildGradientsTest, SumsAndBroadcastsAreEachOthersGradients) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output small = builder.Placeholder("small", kDouble, {3});
  const Output large = builder.Placeholder("large", kDouble, {2, 3});
  const Output spread = ops::BroadcastTo(builder, small, large);
  const Output back = ops::SumTo(builder, ops::Square(builder, spread), small);
  const Output loss = ops::ReduceSum(builder, back);
  const auto gradients = BuildGradients(builder, loss, {small});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto results =
      RunGraph(graph, ReferenceKernelBackend(),
               {{small, Tensor::Of<double>({3}, {1, 2, 3})}, {large, Tensor(kDouble, {2, 3})}}, {},
               {(*gradients)[0]});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].span<double>(), Tensor::Of<double>({3}, {4, 8, 12}).span<double>());
}

TEST(BuildGradientsTest, EqualLargestElementsShareTheGradient) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kDouble, {2, 3});
  const Output loss = ops::ReduceSum(builder, ops::ReduceMax(builder, x, {1}));
  const auto gradients = BuildGradients(builder, loss, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto results =
      RunGraph(graph, ReferenceKernelBackend(),
               {{x, Tensor::Of<double>({2, 3}, {1, 5, 5, 2, 0, -1})}}, {}, {(*gradients)[0]});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].span<double>(),
            Tensor::Of<double>({2, 3}, {0, 0.5, 0.5, 1, 0, 0}).span<double>());
}

TEST(BuildGradientsTest, AValueUsedTwiceAddsUp) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kDouble, {});
  const Output loss = ops::Add(builder, ops::Mul(builder, x, x), x);
  const auto gradients = BuildGradients(builder, loss, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const auto results = RunGraph(graph, ReferenceKernelBackend(), {{x, Tensor::Of<double>({}, {3})}},
                                {}, {(*gradients)[0]});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].span<double>()[0], 7.0);
}

TEST(BuildGradientsTest, VariablesThatTheLossDoesNotDependOnHaveNone) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kDouble, {});
  const Output y = builder.Placeholder("y", kDouble, {});
  const Output loss = ops::Square(builder, x);
  const auto gradients = BuildGradients(builder, loss, {y, x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_FALSE((*gradients)[0].valid());
  EXPECT_TRUE((*gradients)[1].valid());
}

TEST(BuildGradientsTest, TheLossMustBeOneNumber) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", kDouble, {2});
  EXPECT_EQ(BuildGradients(builder, x, {x}).status().message(),
            "the loss must be one floating-point number, is x float64[2]");
  EXPECT_EQ(BuildGradients(builder, Output(), {x}).status().message(),
            "the loss must be one floating-point number, is absent");
}

}  // namespace
}  // namespace shoal
