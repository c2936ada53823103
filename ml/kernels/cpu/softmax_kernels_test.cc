#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

const TensorSpec kScalar = {DataType::kFloat32, {}};

struct Probabilities {
  std::vector<double> p, log_sum;  // log_sum: one a row
};

Probabilities ExactSoftmax(const Value& x) {
  const int64_t c = x.spec.shape.dim(1);
  Probabilities result;
  for (size_t start = 0; start < x.floats.size(); start += static_cast<size_t>(c)) {
    double sum = 0.0;
    for (int64_t j = 0; j < c; ++j) sum += std::exp(static_cast<double>(x.floats[start + j]));
    for (int64_t j = 0; j < c; ++j) {
      result.p.push_back(std::exp(static_cast<double>(x.floats[start + j])) / sum);
    }
    result.log_sum.push_back(std::log(sum));
  }
  return result;
}

std::vector<float> ToFloats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

TEST(SoftmaxTest, RowsAreProbabilities) {
  for (CpuIsa isa : AllIsas()) {
    for (int64_t columns : {1, 10, 16, 37}) {
      const Value x = RandomFloats({600, columns}, 1, 10.0f);
      const Probabilities want = ExactSoftmax(x);
      const auto y = RunKernel("Softmax", {}, {x}, {x.spec}, {2, isa});
      EXPECT_LT(LargestError((*y)[0].floats, ToFloats(want.p)), 1e-6);
      std::vector<double> logs;
      for (size_t i = 0; i < x.floats.size(); ++i) {
        logs.push_back(static_cast<double>(x.floats[i]) - want.log_sum[i / columns]);
      }
      const auto log_y = RunKernel("LogSoftmax", {}, {x}, {x.spec}, {2, isa});
      EXPECT_LT(LargestError((*log_y)[0].floats, ToFloats(logs)), 2e-6);
    }
  }
}

TEST(SoftmaxTest, GradientsAreThoseOfTheFormulas) {
  const int64_t c = 11;
  const Value x = RandomFloats({20, c}, 1), dy = RandomFloats({20, c}, 2);
  const Probabilities exact = ExactSoftmax(x);
  std::vector<double> want, want_log;
  for (size_t i = 0; i < x.floats.size(); ++i) {
    double dot = 0.0, sum = 0.0;
    for (int64_t j = 0; j < c; ++j) {
      const size_t at = i / c * c + static_cast<size_t>(j);
      dot += exact.p[at] * static_cast<double>(dy.floats[at]);
      sum += static_cast<double>(dy.floats[at]);
    }
    want.push_back(exact.p[i] * (static_cast<double>(dy.floats[i]) - dot));
    want_log.push_back(static_cast<double>(dy.floats[i]) - exact.p[i] * sum);
  }
  for (CpuIsa isa : AllIsas()) {
    const Value y = (*RunKernel("Softmax", {}, {x}, {x.spec}, {1, isa}))[0];
    EXPECT_LT(LargestError((*RunKernel("SoftmaxGrad", {}, {y, dy}, {x.spec}, {1, isa}))[0].floats,
                           ToFloats(want)),
              1e-6);
    const Value log_y = (*RunKernel("LogSoftmax", {}, {x}, {x.spec}, {1, isa}))[0];
    EXPECT_LT(
        LargestError((*RunKernel("LogSoftmaxGrad", {}, {log_y, dy}, {x.spec}, {1, isa}))[0].floats,
                     ToFloats(want_log)),
        2e-6);
  }
}

TEST(SparseSoftmaxCrossEntropyTest, SmoothingSharesTheTargetAmongClasses) {
  const int64_t n = 50, c = 10;
  const Value x = RandomFloats({n, c}, 1, 4.0f), dloss = RandomFloats({n}, 2);
  Value labels = Ints({n}, {});
  for (int i = 0; i < n; ++i) labels.ints.push_back(i * 7 % static_cast<int>(c));
  const Probabilities exact = ExactSoftmax(x);
  for (double smoothing : {0.0, 0.1}) {
    std::vector<double> want_loss = exact.log_sum, want_dx;
    for (size_t i = 0; i < x.floats.size(); ++i) {
      const bool is_label = static_cast<int>(i % c) == labels.ints[i / c];
      const double target = (is_label ? 1.0 - smoothing : 0.0) + smoothing / static_cast<double>(c);
      want_loss[i / c] -= target * static_cast<double>(x.floats[i]);
      want_dx.push_back((exact.p[i] - target) * static_cast<double>(dloss.floats[i / c]));
    }
    const Attributes attributes = {{"label_smoothing", smoothing}};
    for (CpuIsa isa : AllIsas()) {
      const auto loss = RunKernel("SparseSoftmaxCrossEntropy", attributes, {x, labels},
                                  {dloss.spec, x.spec}, {1, isa});
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_LT(LargestError((*loss)[0].floats, ToFloats(want_loss)), 1e-6);
      EXPECT_LT(LargestError((*loss)[1].floats, ToFloats(exact.p)), 1e-6);
      const auto dx = RunKernel("SparseSoftmaxCrossEntropyGrad", attributes,
                                {(*loss)[1], labels, dloss}, {x.spec}, {1, isa});
      ASSERT_TRUE(dx.ok()) << dx.status();
      EXPECT_LT(LargestError((*dx)[0].floats, ToFloats(want_dx)), 1e-6);
    }
  }
}

TEST(SparseSoftmaxCrossEntropyTest, UnusedProbabilitiesAreNotWritten) {
  const Value x = RandomFloats({3, 4}, 1), labels = Ints({3}, {1, 0, 3});
  const std::vector<TensorSpec> outputs = {{DataType::kFloat32, {3}}, x.spec};
  const auto all = RunKernel("SparseSoftmaxCrossEntropy", {}, {x, labels}, outputs, {});
  const auto one = RunKernel("SparseSoftmaxCrossEntropy", {}, {x, labels}, outputs,
                             {1, CpuIsa::kGeneric, {true, false}});
  ASSERT_TRUE(all.ok() && one.ok()) << all.status() << one.status();
  EXPECT_EQ((*one)[0].floats, (*all)[0].floats);
  EXPECT_EQ((*one)[1].floats, Unwritten(x.spec).floats);
}

TEST(SparseSoftmaxCrossEntropyTest, ALabelOutOfRangeMakesTheLossNotANumber) {
  const Value x = RandomFloats({3, 4}, 1), labels = Ints({3}, {1, 4, -1});
  const auto loss = RunKernel("SparseSoftmaxCrossEntropy", {}, {x, labels},
                              {{DataType::kFloat32, {3}}, x.spec}, {});
  EXPECT_FALSE(std::isnan((*loss)[0].floats[0]));
  EXPECT_TRUE(std::isnan((*loss)[0].floats[1]));
  EXPECT_TRUE(std::isnan((*loss)[0].floats[2]));
}

TEST(SoftmaxCrossEntropyTest, LossAndGradientFollowTheLabelsDistribution) {
  const int64_t n = 9, c = 5;
  const Value x = RandomFloats({n, c}, 1), labels = RandomFloats({n, c}, 2);
  const Value dloss = RandomFloats({n}, 3);
  const Probabilities exact = ExactSoftmax(x);
  std::vector<double> want_loss(n, 0.0), want_dx, sums(n, 0.0);
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const double label = static_cast<double>(labels.floats[i]);
    sums[i / c] += label;
    want_loss[i / c] += label * (exact.log_sum[i / c] - static_cast<double>(x.floats[i]));
  }
  for (size_t i = 0; i < x.floats.size(); ++i) {
    want_dx.push_back((exact.p[i] * sums[i / c] - static_cast<double>(labels.floats[i])) *
                      static_cast<double>(dloss.floats[i / c]));
  }
  for (CpuIsa isa : AllIsas()) {
    const auto loss =
        RunKernel("SoftmaxCrossEntropy", {}, {x, labels}, {dloss.spec, x.spec}, {1, isa});
    EXPECT_LT(LargestError((*loss)[0].floats, ToFloats(want_loss)), 1e-6);
    const auto dx =
        RunKernel("SoftmaxCrossEntropyGrad", {}, {(*loss)[1], labels, dloss}, {x.spec}, {1, isa});
    EXPECT_LT(LargestError((*dx)[0].floats, ToFloats(want_dx)), 1e-6);
  }
}

TEST(CorrectCountTest, TheFirstOfEqualLogitsCounts) {
  const Value x = Floats({3, 2}, {1, 1, 0, 5, 2, 1});
  const auto count = RunKernel("CorrectCount", {}, {x, Ints({3}, {0, 1, 1})}, {kScalar}, {});
  EXPECT_EQ((*count)[0].floats[0], 2.0f);
}

}  // namespace
}  // namespace shoal::cpu
