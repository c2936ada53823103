#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

// c[m, n] = op(a) * op(b) in double.
std::vector<float> Product(int64_t m, int64_t n, int64_t k, const std::vector<float>& a,
                           bool transpose_a, const std::vector<float>& b, bool transpose_b) {
  std::vector<float> c;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0.0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(a[transpose_a ? p * m + i : i * k + p]) *
               static_cast<double>(b[transpose_b ? j * k + p : p * n + j]);
      }
      c.push_back(static_cast<float>(sum));
    }
  }
  return c;
}

struct Case {
  int64_t m, n, k;
};
const Case kCases[] = {{7, 5, 3},  {300, 33, 40}, {64, 1, 100},  {1, 17, 9},
                       {20, 6, 1}, {517, 16, 1},  {40, 600, 129}};

TEST(MatMulTest, EveryTranspositionGivesTheProduct) {
  for (CpuIsa isa : AllIsas()) {
    for (const Case& c : kCases) {
      for (int flags = 0; flags < 8; ++flags) {
        const bool ta = flags & 1, tb = flags & 2;
        const RunOptions options{flags & 4 ? 2 : 1, isa};
        const Value a = RandomFloats(ta ? Shape{c.k, c.m} : Shape{c.m, c.k}, 1);
        const Value b = RandomFloats(tb ? Shape{c.n, c.k} : Shape{c.k, c.n}, 2);
        const auto result = RunKernel("MatMul", {{"transpose_a", ta}, {"transpose_b", tb}}, {a, b},
                                      {{DataType::kFloat32, {c.m, c.n}}}, options);
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_LT(
            LargestError((*result)[0].floats, Product(c.m, c.n, c.k, a.floats, ta, b.floats, tb)),
            1e-5);
      }
    }
  }
}

TEST(MatMulTest, EveryMatrixOfABatchIsMultiplied) {
  const Value a = RandomFloats({2, 4, 3}, 1);
  const Value b = RandomFloats({2, 3, 5}, 2);
  const auto result =
      RunKernel("MatMul", {}, {a, b}, {{DataType::kFloat32, {2, 4, 5}}}, {1, DetectCpuIsa()});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<float> second_a(a.floats.begin() + 12, a.floats.end());
  const std::vector<float> second_b(b.floats.begin() + 15, b.floats.end());
  const std::vector<float> second((*result)[0].floats.begin() + 20, (*result)[0].floats.end());
  EXPECT_LT(LargestError(second, Product(4, 5, 3, second_a, false, second_b, false)), 1e-6);
}

TEST(MatMulTest, ShapesThatDoNotFitAreRefusedByName) {
  const auto result = RunKernel("MatMul", {}, {RandomFloats({4, 3}, 1), RandomFloats({4, 5}, 2)},
                                {{DataType::kFloat32, {4, 5}}}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()), testing::HasSubstr("MatMul(float32 [4,3]"));
}

float Activate(const std::string& name, float v) {
  if (name == "relu") return std::max(v, 0.0f);
  if (name == "sigmoid") return 1.0f / (1.0f + std::exp(-v));
  if (name == "tanh") return std::tanh(v);
  return v;
}

float ActivationSlope(const std::string& name, float y) {
  if (name == "relu") return y > 0.0f ? 1.0f : 0.0f;
  if (name == "sigmoid") return y * (1.0f - y);
  if (name == "tanh") return 1.0f - y * y;
  return 1.0f;
}

TEST(DenseTest, BiasAndActivationFollowTheProduct) {
  for (CpuIsa isa : AllIsas()) {
    for (const Case& c : kCases) {
      for (const std::string activation : {"none", "relu", "sigmoid", "tanh"}) {
        for (bool scalar : {false, true}) {
          const Value x = RandomFloats({c.m, c.k}, 1), w = RandomFloats({c.k, c.n}, 2);
          const Value bias = RandomFloats(scalar ? Shape{} : Shape{c.n}, 3);
          std::vector<float> want = Product(c.m, c.n, c.k, x.floats, false, w.floats, false);
          for (size_t i = 0; i < want.size(); ++i) {
            want[i] = Activate(activation, want[i] + bias.floats[scalar ? 0 : i % c.n]);
          }
          const auto result = RunKernel("Dense", {{"activation", activation}}, {x, w, bias},
                                        {{DataType::kFloat32, {c.m, c.n}}}, {2, isa});
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_LT(LargestError((*result)[0].floats, want), 1e-5) << activation;
        }
      }
    }
  }
}

// Sizes that are computed tile by tile where that is faster: full and partial tiles of rows.
TEST(DenseTest, ManyRowsGiveTheSameAsFew) {
  for (const Case& c : {Case{256, 64, 64}, Case{300, 96, 70}, Case{611, 128, 128},
                        Case{300, 64, 300}, Case{611, 128, 784}}) {
    const Value x = RandomFloats({c.m, c.k}, 1), w = RandomFloats({c.k, c.n}, 2);
    const Value bias = RandomFloats({c.n}, 3);
    const std::vector<float> product = Product(c.m, c.n, c.k, x.floats, false, w.floats, false);
    const double most = c.k > 512 ? 3e-5 : 1e-5;  // rounding grows with the depth
    for (CpuIsa isa : AllIsas()) {
      for (const std::string activation : {"none", "relu"}) {
        for (bool has_bias : {false, true}) {
          std::vector<float> want = product;
          for (size_t i = 0; i < want.size(); ++i) {
            want[i] = Activate(activation, want[i] + (has_bias ? bias.floats[i % c.n] : 0.0f));
          }
          const std::vector<Value> inputs =
              has_bias ? std::vector<Value>{x, w, bias} : std::vector<Value>{x, w};
          const auto one = RunKernel("Dense", {{"activation", activation}}, inputs,
                                     {{DataType::kFloat32, {c.m, c.n}}}, {1, isa});
          const auto two = RunKernel("Dense", {{"activation", activation}}, inputs,
                                     {{DataType::kFloat32, {c.m, c.n}}}, {2, isa});
          ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
          EXPECT_LT(LargestError((*one)[0].floats, want), most) << c.m << activation;
          EXPECT_LT(LargestError((*two)[0].floats, want), most) << c.m << activation;
        }
      }
    }
  }
}

TEST(DenseTest, NaNStaysNaN) {
  for (const std::string activation : {"none", "relu"}) {
    Value x = RandomFloats({300, 64}, 1);
    x.floats[5 * 64 + 3] = std::nanf("");
    const Value w = RandomFloats({64, 64}, 2);
    for (CpuIsa isa : AllIsas()) {
      const auto result = RunKernel("Dense", {{"activation", activation}}, {x, w},
                                    {{DataType::kFloat32, {300, 64}}}, {1, isa});
      ASSERT_TRUE(result.ok()) << result.status();
      for (size_t i = 0; i < 300 * 64; ++i) {
        EXPECT_EQ(std::isnan((*result)[0].floats[i]), i / 64 == 5) << i;
      }
    }
  }
}

struct DenseGradients {
  std::vector<float> dx, dw, db;
};

DenseGradients WantedGradients(const Case& c, const std::string& activation, const Value& x,
                               const Value& w, const Value& y, const Value& dy, bool scalar) {
  std::vector<float> dz;
  for (size_t i = 0; i < dy.floats.size(); ++i) {
    dz.push_back(dy.floats[i] * ActivationSlope(activation, y.floats[i]));
  }
  DenseGradients want;
  want.dx = Product(c.m, c.k, c.n, dz, false, w.floats, true);
  want.dw = Product(c.k, c.n, c.m, x.floats, true, dz, false);
  std::vector<double> db(static_cast<size_t>(scalar ? 1 : c.n), 0.0);
  for (size_t i = 0; i < dz.size(); ++i) db[scalar ? 0 : i % c.n] += static_cast<double>(dz[i]);
  want.db.assign(db.begin(), db.end());
  return want;
}

TEST(DenseGradTest, AllGradientsFollowFromTheActivationsSlope) {
  for (CpuIsa isa : AllIsas()) {
    for (const Case& c : kCases) {
      for (const std::string activation : {"none", "relu", "sigmoid", "tanh"}) {
        for (bool scalar : {false, true}) {
          const Value x = RandomFloats({c.m, c.k}, 1), w = RandomFloats({c.k, c.n}, 2);
          const Value y = RandomFloats({c.m, c.n}, 3), dy = RandomFloats({c.m, c.n}, 4);
          const DenseGradients want = WantedGradients(c, activation, x, w, y, dy, scalar);
          const auto result = RunKernel(
              "DenseGrad", {{"activation", activation}, {"has_bias", true}}, {x, w, y, dy},
              {x.spec, w.spec, {DataType::kFloat32, scalar ? Shape{} : Shape{c.n}}}, {2, isa});
          ASSERT_TRUE(result.ok()) << result.status();
          EXPECT_LT(LargestError((*result)[0].floats, want.dx), 1e-5);
          EXPECT_LT(LargestError((*result)[1].floats, want.dw), 1e-5);
          EXPECT_LT(LargestError((*result)[2].floats, want.db), 2e-5);
        }
      }
    }
  }
}

// Rows, columns and depth around the tile's and panel's of every instruction set.
TEST(DenseGradTest, InputReluStopsGradientsOfInputsThatAreNotPositive) {
  for (const Case& c : {Case{300, 8, 20}, Case{29, 70, 33}, Case{14, 64, 32}, Case{3, 130, 100},
                        Case{600, 300, 64}, Case{50, 1, 40}}) {
    Value x = RandomFloats({c.m, c.k}, 1);
    for (float& v : x.floats) v = std::max(v, 0.0f);
    const Value w = RandomFloats({c.k, c.n}, 2), y = RandomFloats({c.m, c.n}, 3);
    const Value dy = RandomFloats({c.m, c.n}, 4);
    DenseGradients want = WantedGradients(c, "none", x, w, y, dy, false);
    for (size_t i = 0; i < want.dx.size(); ++i) want.dx[i] *= x.floats[i] > 0.0f ? 1.0f : 0.0f;
    for (CpuIsa isa : AllIsas()) {
      const auto result =
          RunKernel("DenseGrad", {{"input_relu", true}}, {x, w, y, dy}, {x.spec, w.spec}, {1, isa});
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_LT(LargestError((*result)[0].floats, want.dx), 1e-5) << c.m << " " << c.n;
    }
  }
}

TEST(DenseGradTest, TheInputsBiasGetsTheSumOfItsGradient) {
  for (const Case& c : {Case{300, 8, 20}, Case{29, 70, 33}, Case{600, 300, 64}, Case{50, 1, 40}}) {
    Value x = RandomFloats({c.m, c.k}, 1);
    for (float& v : x.floats) v = std::max(v, 0.0f);
    const Value w = RandomFloats({c.k, c.n}, 2), dy = RandomFloats({c.m, c.n}, 4);
    DenseGradients gradients = WantedGradients(c, "none", x, w, dy, dy, false);
    for (bool scalar : {false, true}) {
      std::vector<double> sums(static_cast<size_t>(scalar ? 1 : c.k), 0.0);
      for (size_t i = 0; i < gradients.dx.size(); ++i) {
        if (x.floats[i] > 0.0f) sums[scalar ? 0 : i % c.k] += static_cast<double>(gradients.dx[i]);
      }
      const std::vector<float> want(sums.begin(), sums.end());
      const TensorSpec input_bias{DataType::kFloat32, scalar ? Shape{} : Shape{c.k}};
      for (CpuIsa isa : AllIsas()) {
        const auto result = RunKernel(
            "DenseGrad", {{"input_relu", true}, {"has_input_bias", true}, {"has_bias", true}},
            {x, w, dy, dy}, {x.spec, w.spec, {DataType::kFloat32, {c.n}}, input_bias}, {2, isa});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_LT(LargestError((*result)[3].floats, want), 2e-5) << c.m << " " << c.n;
      }
    }
  }
}

TEST(DenseGradTest, GradientsNotNeededAreNotWritten) {
  const Value x = RandomFloats({30, 4}, 1), w = RandomFloats({4, 3}, 2);
  const Value y = RandomFloats({30, 3}, 3);
  const std::vector<TensorSpec> outputs = {x.spec, w.spec, {DataType::kFloat32, {3}}};
  const auto result = RunKernel("DenseGrad", {{"has_bias", true}}, {x, w, y, y}, outputs,
                                {1, DetectCpuIsa(), {false, true, false}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)[0].floats, Unwritten(outputs[0]).floats);
  EXPECT_NE((*result)[1].floats, Unwritten(outputs[1]).floats);
  EXPECT_EQ((*result)[2].floats, Unwritten(outputs[2]).floats);
}

TEST(DenseGradTest, TheSameInputsGiveTheSameBytes) {
  const Value x = RandomFloats({600, 70}, 1), w = RandomFloats({70, 50}, 2);
  const Value y = RandomFloats({600, 50}, 3), dy = RandomFloats({600, 50}, 4);
  const auto run = [&] {
    return *RunKernel("DenseGrad", {{"activation", std::string("relu")}, {"has_bias", true}},
                      {x, w, y, dy}, {x.spec, w.spec, {DataType::kFloat32, {}}},
                      {2, DetectCpuIsa()});
  };
  const std::vector<Value> first = run(), second = run();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first[i].floats, second[i].floats);
}

}  // namespace
}  // namespace shoal::cpu
