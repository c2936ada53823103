// Tests which numbers CompileRequest::compute_dtype rounds, and which it does not.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/device/simulated_device.h"
#include "ml/graph/compiler.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/convolution_layers.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/pooling_layers.h"
#include "ml/tensor/bfloat16.h"

namespace shoal {
namespace {

using testing::HasSubstr;
using testing::Not;

using Feeds = std::vector<std::pair<Output, Tensor>>;

Tensor Rounded(const Tensor& tensor) {
  Tensor rounded(tensor.spec());
  for (size_t i = 0; i < tensor.span<float>().size(); ++i) {
    rounded.mutable_span<float>()[i] = Bfloat16(tensor.span<float>()[i]);
  }
  return rounded;
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class ProductRoundingTest : public testing::Test {
 protected:
  Output Input(const std::string& name, const Shape& shape) {
    const Output input = builder_.Placeholder(name, DataType::kFloat32, shape);
    feeds_.push_back({input, RandomTensor(DataType::kFloat32, shape, feeds_.size() + 1)});
    return input;
  }

  // Convolution, pool and two dense layers with loss and gradients, on batches of 6.
  std::vector<Output> BuildClassifier() {
    const Output images = Input("x", {6, 3, 8, 8});
    const Output labels = builder_.Placeholder("labels", DataType::kInt32, {6});
    feeds_.push_back({labels, Tensor::Of<int32_t>({6}, {0, 1, 2, 2, 1, 0})});
    ConvOptions conv;
    conv.channels = 16;
    conv.activation = Activation::kRelu;
    Output net = MaxPool(builder_, Conv2d(builder_, images, conv), {});
    net = Conv2d(builder_, net, conv);
    DenseOptions hidden;
    hidden.units = 7;
    hidden.activation = Activation::kRelu;
    DenseOptions last;
    last.units = 3;
    net = Dense(builder_, Dense(builder_, Flatten(builder_, net), hidden), last);
    std::vector<Output> fetches = {
        AddLoss(builder_, LossKind::kSparseSoftmaxCrossEntropy, net, labels)};
    const auto gradients =
        BuildGradients(builder_, fetches[0], graph_.Collection(kTrainableVariables));
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    fetches.insert(fetches.end(), gradients->begin(), gradients->end());
    return fetches;
  }

  CompileRequest RequestFor(const std::vector<Output>& fetches,
                            DataType compute_dtype = DataType::kBfloat16) {
    CompileRequest request = MakeRequest(graph_, cpu_, feeds_, fetches);
    request.compute_dtype = compute_dtype;
    return request;
  }

  std::vector<Tensor> RunOf(const CompileRequest& request) {
    absl::StatusOr<std::unique_ptr<Executable>> executable = Compile(request);
    EXPECT_TRUE(executable.ok()) << executable.status();
    text_ = (*executable)->ToString();
    return RunOnce(executable->get(), feeds_, InitialValues(graph_, 17));
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
  KernelBackend cpu_ = CpuKernelBackend();
  Feeds feeds_;
  std::string text_;  // of what ran last
};

TEST_F(ProductRoundingTest, ProductsAreThoseOfRoundedFactorsAndOtherOpsOfTheNumbersThemselves) {
  const Output a = Input("a", {33, 20}), b = Input("b", {20, 9}), c = Input("c", {33, 9});
  const Output product = ops::MatMul(builder_, a, b);
  const std::vector<Output> fetches = {product, ops::Add(builder_, product, c),
                                       ops::Mul(builder_, c, c)};
  const std::vector<Tensor> got = RunOf(RequestFor(fetches));
  const std::vector<Tensor> exact = RunOf(RequestFor(fetches, DataType::kFloat32));
  for (int i = 0; i < 2; ++i) feeds_[i].second = Rounded(feeds_[i].second);
  const std::vector<Tensor> expected = RunOf(RequestFor(fetches, DataType::kFloat32));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].span<float>(), expected[i].span<float>()) << i;
  }
  EXPECT_NE(got[0].span<float>(), exact[0].span<float>());
}

// dy is rounded for the weights and the images, not for the bias.
TEST_F(ProductRoundingTest, GradientsOfAConvolutionAreThoseOfRoundedFactors) {
  const Output x = Input("x", {2, 3, 6, 6}), w = Input("w", {4, 3, 3, 3}), b = Input("b", {4});
  const Output slope = Input("slope", {2, 4, 4, 4});
  const Output y = builder_.Op("Conv", {x, w, b});
  const Output loss = ops::ReduceSum(builder_, ops::Mul(builder_, y, slope), {}, false);
  const auto gradients = BuildGradients(builder_, loss, {x, w, b});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const std::vector<Tensor> got = RunOf(RequestFor(*gradients));
  const std::vector<Tensor> exact = RunOf(RequestFor(*gradients, DataType::kFloat32));
  for (int i : {0, 1, 3}) feeds_[i].second = Rounded(feeds_[i].second);
  const std::vector<Tensor> expected = RunOf(RequestFor(*gradients, DataType::kFloat32));
  for (int i = 0; i < 2; ++i) {
    EXPECT_LT(RelativeDistance(got[i], expected[i]), 1e-6) << i;
    EXPECT_GT(RelativeDistance(got[i], exact[i]), 1e-4) << i;
  }
  EXPECT_LT(RelativeDistance(got[2], exact[2]), 1e-6);
  EXPECT_GT(RelativeDistance(got[2], expected[2]), 1e-4);
}

TEST_F(ProductRoundingTest, GradientsOfATransposedConvolutionAreThoseOfRoundedFactors) {
  const Output x = Input("x", {2, 4, 5, 5}), w = Input("w", {4, 3, 3, 3});
  const Output slope = Input("slope", {2, 3, 7, 7});
  const Output y = builder_.Op("ConvTranspose", {x, w});
  const Output loss = ops::ReduceSum(builder_, ops::Mul(builder_, y, slope), {}, false);
  const auto gradients = BuildGradients(builder_, loss, {x, w});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  std::vector<Output> fetches = *gradients;
  fetches.push_back(y);
  const std::vector<Tensor> got = RunOf(RequestFor(fetches));
  for (auto& feed : feeds_) feed.second = Rounded(feed.second);
  const std::vector<Tensor> expected = RunOf(RequestFor(fetches, DataType::kFloat32));
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_LT(RelativeDistance(got[i], expected[i]), 1e-6) << i;
  }
}

TEST_F(ProductRoundingTest, AModelsGradientsAreNearThoseOfFloat32FusedOrNot) {
  const std::vector<Output> fetches = BuildClassifier();
  const std::vector<Tensor> exact = RunOf(RequestFor(fetches, DataType::kFloat32));
  EXPECT_THAT(text_, Not(HasSubstr("bfloat16")));
  for (bool fuse : {true, false}) {
    for (bool choose_layouts : {true, false}) {
      CompileRequest request = RequestFor(fetches);
      request.fuse = fuse;
      request.choose_layouts = choose_layouts;
      const std::vector<Tensor> got = RunOf(request);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_LT(RelativeDistance(got[i], exact[i]), 0.03) << i << " fuse " << fuse;
        EXPECT_NE(got[i].span<float>(), exact[i].span<float>()) << i;
      }
    }
  }
}

TEST_F(ProductRoundingTest, TwoRunsGiveTheSameBytes) {
  const std::vector<Output> fetches = BuildClassifier();
  const std::vector<Tensor> first = RunOf(RequestFor(fetches));
  const std::vector<Tensor> second = RunOf(RequestFor(fetches));
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].span<float>(), second[i].span<float>()) << i;
  }
}

// x, w and dy are read by two products each.
TEST_F(ProductRoundingTest, AValueIsRoundedOnceForAllItsProducts) {
  const Output x = Input("x", {5, 7}), w = Input("w", {7, 3}), slope = Input("slope", {5, 3});
  const Output loss =
      ops::ReduceSum(builder_, ops::Mul(builder_, ops::MatMul(builder_, x, w), slope), {}, false);
  const auto gradients = BuildGradients(builder_, loss, {x, w});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  RunOf(RequestFor({loss, (*gradients)[0], (*gradients)[1]}));
  EXPECT_EQ(Count(text_, "MatMul("), 3) << text_;
  EXPECT_EQ(Count(text_, "Cast("), 3) << text_;
}

// The device of the product does the rounding: it receives float32.
TEST_F(ProductRoundingTest, DevicesWithMemoryOfTheirOwnGiveTheSameBytes) {
  std::vector<Output> fetches;
  {
    const auto on = builder_.WithDevice("/gpu:0");
    fetches = BuildClassifier();
  }
  const std::vector<Tensor> on_cpu = RunOf(RequestFor(fetches));
  const KernelBackend simulated = SimulatedBackend(cpu_, {});
  for (bool record_steps : {false, true}) {
    CompileRequest request = RequestFor(fetches);
    request.accelerators = {&simulated};
    request.placer.devices = *LocalDevices("worker", 0, {"/cpu:0", "/gpu:0"});
    request.record_steps = record_steps;
    const std::vector<Tensor> got = RunOf(request);
    EXPECT_THAT(text_, HasSubstr("GPU:0 Conv/Conv/Bfloat16 = Cast("));
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].span<float>(), on_cpu[i].span<float>()) << i;
    }
  }
}

TEST_F(ProductRoundingTest, ADeviceThatCannotRoundIsAnErrorThatNamesTheProduct) {
  Output y;
  {
    const auto on = builder_.WithDevice("/gpu:0");
    y = ops::MatMul(builder_, Input("a", {4, 4}), Input("b", {4, 4}));
  }
  SimulatedDeviceOptions few;
  few.ops = {"MatMul"};
  const KernelBackend simulated = SimulatedBackend(cpu_, few);
  CompileRequest request = RequestFor({y});
  request.accelerators = {&simulated};
  request.placer.devices = *LocalDevices("worker", 0, {"/cpu:0", "/gpu:0"});
  const absl::Status status = Compile(request).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("compute_dtype: MatMul (MatMul) is on a GPU, which has no kernel"));
}

TEST_F(ProductRoundingTest, OtherTypesAreRefused) {
  const Output y = ops::MatMul(builder_, Input("a", {4, 4}), Input("b", {4, 4}));
  const absl::Status status = Compile(RequestFor({y}, DataType::kFloat64)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "compute_dtype: float64 is neither float32 nor bfloat16");
}

TEST_F(ProductRoundingTest, AConvolutionWithAnActivationOfItsOwnHasNoGradient) {
  const Output x = Input("x", {2, 3, 6, 6}), w = Input("w", {4, 3, 3, 3});
  const Output y = builder_.Op("Conv", {x, w}, {{"activation", std::string("relu")}});
  const auto gradients = BuildGradients(builder_, ops::ReduceSum(builder_, y, {}, false), {w});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const absl::Status status = Compile(RequestFor(*gradients)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use a separate activation op"));
}

// Only the compiler makes these casts; a graph that casts by itself gets an error.
TEST_F(ProductRoundingTest, OtherOpsHaveNoKernelsForBfloat16) {
  const Output x = Input("x", {4, 4});
  const Output rounded =
      builder_.Op("Cast", {x}, {{"to", static_cast<int64_t>(DataType::kBfloat16)}});
  const absl::Status status =
      Compile(RequestFor({builder_.Op("Relu", {rounded})}, DataType::kFloat32)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bfloat16 is for operands of products"));
}

}  // namespace
}  // namespace shoal
