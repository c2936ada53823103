// Checks the reference kernels against numbers computed by hand, and their gradients against
// numeric differences.
#include "ml/kernels/reference/reference_kernels.h"

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<Tensor> RunOp(const std::string& op, const Attributes& attributes,
                          const std::vector<Tensor>& inputs,
                          const std::vector<TensorSpec>& outputs) {
  std::vector<TensorSpec> specs;
  std::vector<const void*> in;
  for (const Tensor& input : inputs) {
    specs.push_back(input.spec());
    in.push_back(input.data());
  }
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (const TensorSpec& spec : outputs) {
    results.emplace_back(spec);
    out.push_back(results.back().mutable_data());
  }
  KernelRequest request{op, &attributes, specs, outputs, {}, 1};
  KernelContext context;
  context.inputs = in.data();
  context.outputs = out.data();
  CreateReferenceKernel(request).value()->Run(context);
  return results;
}

TensorSpec F64(const Shape& shape) { return {DataType::kFloat64, shape}; }

Tensor Random(const Shape& shape, uint32_t seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> values(low, high);
  Tensor tensor(F64(shape));
  for (double& v : tensor.mutable_span<double>()) v = values(random);
  return tensor;
}

double Dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (size_t i = 0; i < a.span<double>().size(); ++i)
    sum += a.span<double>()[i] * b.span<double>()[i];
  return sum;
}

// The derivative of dot(dy, f(x)) by every element of x is `dx`.
void ExpectGradient(const std::function<Tensor()>& f, const Tensor& dy, Tensor x,
                    const Tensor& dx) {
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < x.span<double>().size(); ++i) {
    double& element = x.mutable_span<double>()[i];
    const double middle = element;
    element = middle + kStep;
    const double above = Dot(dy, f());
    element = middle - kStep;
    const double below = Dot(dy, f());
    element = middle;
    EXPECT_NEAR((above - below) / (2 * kStep), dx.span<double>()[i], 1e-7) << "element " << i;
  }
}

TEST(ReferenceKernelsTest, MatMulByHand) {
  const Tensor a = Tensor::Of<double>({2, 3}, {1, 2, 3, 4, 5, 6});
  const Tensor b = Tensor::Of<double>({3, 2}, {1, 0, 0, 1, 2, -1});
  EXPECT_THAT(RunOp("MatMul", {}, {a, b}, {F64({2, 2})})[0].span<double>(),
              ElementsAre(7, -1, 16, -1));
  const Attributes transposed{{"transpose_a", true}, {"transpose_b", true}};
  const Tensor at = Tensor::Of<double>({3, 2}, {1, 4, 2, 5, 3, 6});
  const Tensor bt = Tensor::Of<double>({2, 3}, {1, 0, 2, 0, 1, -1});
  EXPECT_THAT(RunOp("MatMul", transposed, {at, bt}, {F64({2, 2})})[0].span<double>(),
              ElementsAre(7, -1, 16, -1));
}

TEST(ReferenceKernelsTest, ConvolutionByHand) {
  const Tensor x = Tensor::Of<float>({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  const Tensor w = Tensor::Of<float>({1, 1, 2, 2}, {1, 0, 0, -1});
  const Tensor bias = Tensor::Of<float>({1}, {10});
  EXPECT_THAT(
      RunOp("Conv", {}, {x, w, bias}, {{DataType::kFloat32, {1, 1, 2, 2}}})[0].span<float>(),
      ElementsAre(6, 6, 6, 6));
  const Attributes padded{{"pads", std::vector<int64_t>{1, 0, 0, 1}},
                          {"strides", std::vector<int64_t>{2, 1}}};
  EXPECT_THAT(RunOp("Conv", padded, {x, w}, {{DataType::kFloat32, {1, 1, 2, 3}}})[0].span<float>(),
              ElementsAre(-2, -3, 0, -4, -4, 6));
}

TEST(ReferenceKernelsTest, MaxPoolByHand) {
  const Tensor x = Tensor::Of<float>({1, 1, 2, 4}, {1, 5, -1, -2, 5, 2, -3, -4});
  const Attributes attributes{{"kernel_shape", std::vector<int64_t>{2, 2}},
                              {"strides", std::vector<int64_t>{2, 2}},
                              {"relu", true}};
  const Shape pooled({1, 1, 1, 2});
  const auto y =
      RunOp("MaxPool", attributes, {x}, {{DataType::kFloat32, pooled}, {DataType::kUint8, pooled}});
  EXPECT_THAT(y[0].span<float>(), ElementsAre(5, 0));
  EXPECT_THAT(y[1].span<uint8_t>(), ElementsAre(1, 255));
  const Tensor dy = Tensor::Of<float>({1, 1, 1, 2}, {3, 4});
  const auto dx = RunOp("MaxPoolGrad", attributes, {y[1], dy}, {x.spec()});
  EXPECT_THAT(dx[0].span<float>(), ElementsAre(0, 3, 0, 0, 0, 0, 0, 0));
}

TEST(ReferenceKernelsTest, BatchNormCorrectsTheVarianceItHandsOn) {
  const Tensor x = Tensor::Of<double>({2, 1}, {1, 3});
  const Tensor one = Tensor::Of<double>({1}, {1}), zero = Tensor::Of<double>({1}, {0});
  const auto y = RunOp("BatchNorm", {{"epsilon", 0.0}}, {x, one, zero, zero, one},
                       {x.spec(), one.spec(), one.spec(), one.spec()});
  EXPECT_THAT(y[0].span<double>(), ElementsAre(-1, 1));
  EXPECT_EQ(y[1].span<double>()[0], 2);
  EXPECT_EQ(y[2].span<double>()[0], 2);  // 1 * n/(n-1)
  EXPECT_EQ(y[3].span<double>()[0], 1);
}

TEST(ReferenceKernelsTest, CrossEntropyByHand) {
  const Tensor logits = Tensor::Of<double>({2, 2}, {0, 0, 1000, 0});
  const Tensor labels = Tensor::Of<int32_t>({2}, {1, 1});
  const auto y = RunOp("SparseSoftmaxCrossEntropy", {}, {logits, labels}, {F64({2}), F64({2, 2})});
  EXPECT_NEAR(y[0].span<double>()[0], std::log(2.0), 1e-15);
  EXPECT_NEAR(y[0].span<double>()[1], 1000, 1e-12);
  const auto smoothed = RunOp("SparseSoftmaxCrossEntropy", {{"label_smoothing", 0.5}},
                              {logits, labels}, {F64({2}), F64({2, 2})});
  EXPECT_NEAR(smoothed[0].span<double>()[1], 750, 1e-12);
  EXPECT_THAT(
      RunOp("CorrectCount", {}, {logits, labels}, {{DataType::kFloat32, {}}})[0].span<float>(),
      ElementsAre(0));
}

TEST(ReferenceKernelsTest, BroadcastReduceAndMoveByHand) {
  const Tensor a = Tensor::Of<double>({2, 1}, {1, 2}), b = Tensor::Of<double>({3}, {10, 20, 30});
  const Tensor c = RunOp("Add", {}, {a, b}, {F64({2, 3})})[0];
  EXPECT_THAT(c.span<double>(), ElementsAre(11, 21, 31, 12, 22, 32));
  EXPECT_THAT(RunOp("SumTo", {}, {c}, {F64({3})})[0].span<double>(), ElementsAre(23, 43, 63));
  EXPECT_THAT(RunOp("SumTo", {}, {c}, {F64({2, 1})})[0].span<double>(), ElementsAre(63, 66));
  EXPECT_THAT(
      RunOp("ReduceMean", {{"axes", std::vector<int64_t>{-1}}}, {c}, {F64({2})})[0].span<double>(),
      ElementsAre(21, 22));
  EXPECT_THAT(RunOp("Transpose", {{"perm", std::vector<int64_t>{1, 0}}}, {c}, {F64({3, 2})})[0]
                  .span<double>(),
              ElementsAre(11, 12, 21, 22, 31, 32));
  const Attributes axis{{"axis", int64_t{1}}};
  const auto parts = RunOp("Split", axis, {c}, {F64({2, 1}), F64({2, 2})});
  EXPECT_THAT(parts[0].span<double>(), ElementsAre(11, 12));
  EXPECT_THAT(parts[1].span<double>(), ElementsAre(21, 31, 22, 32));
  EXPECT_THAT(RunOp("Concat", axis, parts, {F64({2, 3})})[0].span<double>(),
              ElementsAreArray(c.span<double>()));
}

TEST(ReferenceKernelsTest, ReorderLayoutThereAndBackIsTheSame) {
  Tensor x(DataType::kFloat32, {2, 32, 3, 2});
  for (size_t i = 0; i < x.span<float>().size(); ++i)
    x.mutable_span<float>()[i] = static_cast<float>(i);
  TensorSpec blocked = x.spec();
  blocked.layout = Layout::kBlocked16;
  const Tensor y = RunOp("ReorderLayout", {}, {x}, {blocked})[0];
  EXPECT_EQ(y.span<float>()[1], 6);  // the next channel
  EXPECT_THAT(RunOp("ReorderLayout", {}, {y}, {x.spec()})[0].span<float>(),
              ElementsAreArray(x.span<float>()));
}

TEST(ReferenceGradientsTest, Convolution) {
  const Attributes attributes{{"strides", std::vector<int64_t>{2, 1}},
                              {"pads", std::vector<int64_t>{1, 0, 0, 2}},
                              {"dilations", std::vector<int64_t>{1, 2}},
                              {"group", int64_t{2}},
                              {"activation", std::string("tanh")}};
  const Tensor x = Random({2, 4, 5, 6}, 1), w = Random({4, 2, 3, 2}, 2), bias = Random({4}, 3);
  const TensorSpec y_spec = F64({2, 4, 2, 6});
  const auto f = [&] { return RunOp("Conv", attributes, {x, w, bias}, {y_spec})[0]; };
  const Tensor dy = Random(y_spec.shape, 4);
  const auto gradients =
      RunOp("ConvGrad", attributes, {x, w, f(), dy}, {x.spec(), w.spec(), bias.spec()});
  ExpectGradient(f, dy, x, gradients[0]);
  ExpectGradient(f, dy, w, gradients[1]);
  ExpectGradient(f, dy, bias, gradients[2]);
}

TEST(ReferenceGradientsTest, ConvolutionWithPool) {
  const Attributes attributes{{"pads", std::vector<int64_t>{1, 1, 1, 1}},
                              {"pool_kernel_shape", std::vector<int64_t>{2, 2}},
                              {"pool_strides", std::vector<int64_t>{2, 2}},
                              {"relu", true}};
  const Tensor x = Random({2, 2, 4, 4}, 1), w = Random({3, 2, 3, 3}, 2), bias = Random({3}, 3);
  const Shape pooled({2, 3, 2, 2});
  const auto run = [&] {
    return RunOp("ConvPool", attributes, {x, w, bias}, {F64(pooled), {DataType::kUint8, pooled}});
  };
  const auto f = [&] { return run()[0]; };
  const Tensor dy = Random(pooled, 4);
  const auto gradients =
      RunOp("ConvPoolGrad", attributes, {x, w, run()[1], dy}, {x.spec(), w.spec(), bias.spec()});
  ExpectGradient(f, dy, x, gradients[0]);
  ExpectGradient(f, dy, w, gradients[1]);
  ExpectGradient(f, dy, bias, gradients[2]);
}

TEST(ReferenceGradientsTest, Dense) {
  for (const char* activation : {"none", "relu", "sigmoid", "tanh"}) {
    const Attributes attributes{{"activation", std::string(activation)}};
    const Tensor x = Random({3, 4}, 1), w = Random({4, 2}, 2), bias = Random({}, 3);
    const auto f = [&] { return RunOp("Dense", attributes, {x, w, bias}, {F64({3, 2})})[0]; };
    const Tensor dy = Random({3, 2}, 4);
    const auto gradients =
        RunOp("DenseGrad", attributes, {x, w, f(), dy}, {x.spec(), w.spec(), bias.spec()});
    ExpectGradient(f, dy, x, gradients[0]);
    ExpectGradient(f, dy, w, gradients[1]);
    ExpectGradient(f, dy, bias, gradients[2]);
  }
}

TEST(ReferenceGradientsTest, DenseThroughTheReluOfItsInput) {
  for (const Shape& bias_shape : {Shape({4}), Shape({})}) {
    const Tensor before = Random({3, 4}, 1), input_bias = Random(bias_shape, 5, 0.1, 0.2);
    const Tensor w = Random({4, 2}, 2), bias = Random({2}, 3), dy = Random({3, 2}, 4);
    const auto x = [&] {
      const Tensor sum = RunOp("Add", {}, {before, input_bias}, {before.spec()})[0];
      return RunOp("Relu", {}, {sum}, {sum.spec()})[0];
    };
    const auto f = [&] { return RunOp("Dense", {}, {x(), w, bias}, {F64({3, 2})})[0]; };
    const auto gradients =
        RunOp("DenseGrad", {{"input_relu", true}, {"has_input_bias", true}}, {x(), w, f(), dy},
              {before.spec(), w.spec(), bias.spec(), input_bias.spec()});
    ExpectGradient(f, dy, before, gradients[0]);
    ExpectGradient(f, dy, w, gradients[1]);
    ExpectGradient(f, dy, bias, gradients[2]);
    ExpectGradient(f, dy, input_bias, gradients[3]);
  }
}

TEST(ReferenceGradientsTest, AveragePool) {
  for (bool count_include_pad : {false, true}) {
    const Attributes attributes{{"kernel_shape", std::vector<int64_t>{3, 2}},
                                {"strides", std::vector<int64_t>{2, 1}},
                                {"pads", std::vector<int64_t>{1, 1, 0, 0}},
                                {"count_include_pad", count_include_pad}};
    const Tensor x = Random({1, 2, 4, 3}, 1);
    const TensorSpec y_spec = F64({1, 2, 2, 3});
    const auto f = [&] { return RunOp("AveragePool", attributes, {x}, {y_spec})[0]; };
    const Tensor dy = Random(y_spec.shape, 2);
    ExpectGradient(f, dy, x, RunOp("AveragePoolGrad", attributes, {dy}, {x.spec()})[0]);
  }
}

TEST(ReferenceGradientsTest, BatchNorm) {
  for (const Shape& shape : {Shape({5, 3}), Shape({2, 3, 2, 2})}) {
    for (bool training : {true, false}) {
      const Attributes attributes{{"training", training}, {"epsilon", 1e-3}};
      const Tensor x = Random(shape, 1), scale = Random({3}, 2), offset = Random({3}, 3);
      const Tensor mean = Random({3}, 4), variance = Random({3}, 5, 0.5, 2);
      const TensorSpec c = scale.spec();
      const auto run = [&] {
        return RunOp("BatchNorm", attributes, {x, scale, offset, mean, variance},
                     {x.spec(), c, c, c});
      };
      const auto f = [&] { return run()[0]; };
      const auto y = run();
      const Tensor dy = Random(shape, 6);
      const auto gradients =
          RunOp("BatchNormGrad", attributes, {x, scale, y[1], y[3], dy}, {x.spec(), c, c});
      ExpectGradient(f, dy, x, gradients[0]);
      ExpectGradient(f, dy, scale, gradients[1]);
      ExpectGradient(f, dy, offset, gradients[2]);
    }
  }
}

TEST(ReferenceGradientsTest, ActivationsAndSoftmax) {
  for (const std::string op : {"Relu", "Sigmoid", "Tanh", "Softmax", "LogSoftmax"}) {
    const Tensor x = Random({3, 4}, 1), dy = Random({3, 4}, 2);
    const auto f = [&] { return RunOp(op, {}, {x}, {x.spec()})[0]; };
    ExpectGradient(f, dy, x, RunOp(op + "Grad", {}, {f(), dy}, {x.spec()})[0]);
  }
}

TEST(ReferenceGradientsTest, ElementwiseLosses) {
  for (const std::string op :
       {"AbsoluteDifference", "Hinge", "Huber", "SigmoidCrossEntropy", "LogLoss"}) {
    const Tensor p = Random({3, 4}, 1, 0.1, 0.9), dy = Random({3, 4}, 2);
    Tensor t = Random({3, 4}, 3, 0, 1);
    for (double& v : t.mutable_span<double>()) v = v < 0.5 ? 0 : 1;
    const Attributes attributes = op == "Huber" ? Attributes{{"delta", 0.4}} : Attributes();
    const auto f = [&] { return RunOp(op, attributes, {p, t}, {p.spec()})[0]; };
    ExpectGradient(f, dy, p, RunOp(op + "Grad", attributes, {p, t, dy}, {p.spec()})[0]);
  }
}

TEST(ReferenceGradientsTest, LossesOfABatch) {
  const Tensor logits = Random({3, 4}, 1, -2, 2), dloss = Random({3}, 2);
  const Tensor sparse = Tensor::Of<int32_t>({3}, {0, 3, 1});
  const Tensor dense = RunOp("Softmax", {}, {Random({3, 4}, 5)}, {logits.spec()})[0];
  const std::vector<TensorSpec> specs = {F64({3}), logits.spec()};
  const Attributes smoothing{{"label_smoothing", 0.1}};
  for (const auto& [op, labels] :
       {std::pair<std::string, Tensor>{"SparseSoftmaxCrossEntropy", sparse},
        std::pair<std::string, Tensor>{"SoftmaxCrossEntropy", dense}}) {
    const auto f = [&, op = op, labels = labels] {
      return RunOp(op, smoothing, {logits, labels}, specs)[0];
    };
    const Tensor probabilities = RunOp(op, smoothing, {logits, labels}, specs)[1];
    ExpectGradient(
        f, dloss, logits,
        RunOp(op + "Grad", smoothing, {probabilities, labels, dloss}, {logits.spec()})[0]);
  }
}

TEST(ReferenceGradientsTest, MeanSquaredErrorByBroadcasting) {
  const Tensor dloss = Tensor::Of<double>({}, {0.7});
  for (const auto& [a, b] :
       {std::pair<Shape, Shape>{{4, 1}, {4, 3}}, {{4, 3}, {4, 3}}, {{3}, {4, 1}}}) {
    const Tensor p = Random(a, 1), t = Random(b, 2);
    const auto f = [&] { return RunOp("MeanSquaredError", {}, {p, t}, {F64({})})[0]; };
    ExpectGradient(f, dloss, p, RunOp("MeanSquaredErrorGrad", {}, {p, t, dloss}, {p.spec()})[0]);
  }
}

TEST(ReferenceKernelsTest, NanIsNotHidden) {
  const double nan = std::nan("");
  const Tensor x = Tensor::Of<double>({3}, {nan, -1, 1}), y = Tensor::Of<double>({3}, {1, nan, 1});
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Square"}) {
    EXPECT_TRUE(std::isnan(RunOp(op, {}, {x}, {x.spec()})[0].span<double>()[0])) << op;
  }
  for (const char* op : {"Add", "Maximum", "Minimum", "SquaredDifference"}) {
    const Tensor z = RunOp(op, {}, {x, y}, {x.spec()})[0];
    EXPECT_TRUE(std::isnan(z.span<double>()[0])) << op;
    EXPECT_TRUE(std::isnan(z.span<double>()[1])) << op;
    EXPECT_FALSE(std::isnan(z.span<double>()[2])) << op;
  }
}

TEST(ReferenceKernelsTest, ErrorsNameOpAndTypes) {
  const Attributes attributes;
  const TensorSpec ints{DataType::kInt32, {2}};
  KernelRequest request{"Nonsense", &attributes, {&ints, 1}, {&ints, 1}, {}, 1};
  EXPECT_EQ(CreateReferenceKernel(request).status().code(), absl::StatusCode::kNotFound);
  request.op = "Relu";
  EXPECT_EQ(CreateReferenceKernel(request).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(CreateReferenceKernel(request).status().message()),
              HasSubstr("Relu(int32 [2]"));
}

}  // namespace
}  // namespace shoal
