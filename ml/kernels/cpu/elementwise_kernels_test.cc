#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

const float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RunUnary(const std::string& op, const Value& x, CpuIsa isa, int threads = 1) {
  return (*RunKernel(op, {}, {x}, {x.spec}, {threads, isa}))[0].floats;
}

TEST(UnaryTest, AgreesWithTheMathLibrary) {
  const std::vector<std::pair<std::string, std::function<double(double)>>> functions = {
      {"Relu", [](double v) { return std::max(v, 0.0); }},
      {"Sigmoid", [](double v) { return 1.0 / (1.0 + std::exp(-v)); }},
      {"Tanh", [](double v) { return std::tanh(v); }},
      {"Exp", [](double v) { return std::exp(v); }},
      {"Neg", [](double v) { return -v; }},
      {"Abs", [](double v) { return std::abs(v); }},
      {"Square", [](double v) { return v * v; }},
      {"Reciprocal", [](double v) { return 1.0 / v; }},
  };
  const Value x = RandomFloats({70001}, 1, 20.0f);
  for (CpuIsa isa : AllIsas()) {
    for (const auto& [op, function] : functions) {
      const std::vector<float> y = RunUnary(op, x, isa, 2);
      for (size_t i = 0; i < y.size(); ++i) {
        const double want = function(static_cast<double>(x.floats[i]));
        ASSERT_NEAR(y[i], want, 4e-7 * std::abs(want) + 1e-38) << op << " of " << x.floats[i];
      }
    }
  }
}

TEST(UnaryTest, LogAndSqrtAgreeWithTheMathLibraryForPositiveNumbers) {
  Value x = RandomFloats({5003}, 1, 40.0f);
  for (float& v : x.floats) v = std::exp(v);
  for (CpuIsa isa : AllIsas()) {
    const std::vector<float> logs = RunUnary("Log", x, isa), roots = RunUnary("Sqrt", x, isa);
    for (size_t i = 0; i < x.floats.size(); ++i) {
      const double v = static_cast<double>(x.floats[i]);
      ASSERT_NEAR(logs[i], std::log(v), 3e-7 * std::abs(std::log(v)) + 1e-7);
      ASSERT_EQ(roots[i], std::sqrt(x.floats[i]));
    }
  }
}

TEST(UnaryTest, LimitsAndNonNumbersAreThoseOfTheMathLibrary) {
  const Value x = Floats({6}, {kInfinity, -kInfinity, kNan, 100.0f, -200.0f, 0.0f});
  for (CpuIsa isa : AllIsas()) {
    using testing::ElementsAre;
    using testing::IsNan;
    EXPECT_THAT(RunUnary("Exp", x, isa),
                ElementsAre(kInfinity, 0.0f, IsNan(), kInfinity, 0.0f, 1.0f));
    EXPECT_THAT(RunUnary("Log", x, isa),
                ElementsAre(kInfinity, IsNan(), IsNan(), testing::FloatEq(std::log(100.0f)),
                            IsNan(), -kInfinity));
    EXPECT_THAT(RunUnary("Tanh", x, isa), ElementsAre(1.0f, -1.0f, IsNan(), 1.0f, -1.0f, 0.0f));
    EXPECT_THAT(RunUnary("Sigmoid", x, isa), ElementsAre(1.0f, 0.0f, IsNan(), 1.0f, 0.0f, 0.5f));
    EXPECT_THAT(RunUnary("Relu", x, isa),
                ElementsAre(kInfinity, 0.0f, IsNan(), 100.0f, 0.0f, 0.0f));
  }
}

float Apply(const std::string& op, float a, float b) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Maximum") return std::max(a, b);
  if (op == "Minimum") return std::min(a, b);
  if (op == "SquaredDifference") return (a - b) * (a - b);
  if (op == "ReluGrad") return a > 0 ? b : 0.0f;
  if (op == "SigmoidGrad") return b * a * (1.0f - a);
  return b * (1.0f - a * a);  // TanhGrad
}

TEST(BinaryTest, BroadcastsAsNumpy) {
  // Shapes of a, b and of both together, and the index of the operands' elements for each of the
  // result's.
  struct Broadcast {
    Shape a, b, c;
    std::function<size_t(int64_t)> a_at, b_at;
  };
  const auto same = [](int64_t i) { return static_cast<size_t>(i); };
  const std::vector<Broadcast> cases = {
      {{37}, {37}, {37}, same, same},
      {{}, {}, {}, same, same},
      {{5, 37}, {}, {5, 37}, same, [](int64_t) { return 0; }},
      {{}, {5, 37}, {5, 37}, [](int64_t) { return 0; }, same},
      {{5, 37}, {37}, {5, 37}, same, [](int64_t i) { return i % 37; }},
      {{5, 1}, {5, 37}, {5, 37}, [](int64_t i) { return i / 37; }, same},
      {{5, 1}, {1, 7}, {5, 7}, [](int64_t i) { return i / 7; }, [](int64_t i) { return i % 7; }},
      {{2, 3, 4, 5}, {1, 3, 1, 1}, {2, 3, 4, 5}, same, [](int64_t i) { return i / 20 % 3; }},
      {{200, 300}, {300}, {200, 300}, same, [](int64_t i) { return i % 300; }},
  };
  for (const std::string op : {"Add", "Sub", "Mul", "Div", "Maximum", "Minimum",
                               "SquaredDifference", "ReluGrad", "SigmoidGrad", "TanhGrad"}) {
    for (CpuIsa isa : AllIsas()) {
      for (const Broadcast& c : cases) {
        const Value a = RandomFloats(c.a, 1), b = RandomFloats(c.b, 2);
        const auto result = RunKernel(op, {}, {a, b}, {{DataType::kFloat32, c.c}}, {2, isa});
        ASSERT_TRUE(result.ok()) << result.status();
        for (int64_t i = 0; i < c.c.num_elements(); ++i) {
          ASSERT_FLOAT_EQ((*result)[0].floats[i],
                          Apply(op, a.floats[c.a_at(i)], b.floats[c.b_at(i)]));
        }
      }
    }
  }
}

TEST(BinaryTest, ShapesThatCannotBeBroadcastAreRefused) {
  const auto result = RunKernel("Add", {}, {RandomFloats({3}, 1), RandomFloats({4}, 2)},
                                {{DataType::kFloat32, {4}}}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AddNTest, AddsInTheOrderOfInputs) {
  const Value a = RandomFloats({20003}, 1), b = RandomFloats({20003}, 2),
              c = RandomFloats({20003}, 3);
  std::vector<float> want;
  for (size_t i = 0; i < a.floats.size(); ++i) {
    want.push_back((a.floats[i] + b.floats[i]) + c.floats[i]);
  }
  for (CpuIsa isa : AllIsas()) {
    EXPECT_EQ((*RunKernel("AddN", {}, {a, b, c}, {a.spec}, {2, isa}))[0].floats, want);
  }
}

TEST(ScaleTest, MultipliesByTheFactor) {
  const Value x = Floats({3}, {1.0f, -2.0f, 0.5f});
  EXPECT_EQ((*RunKernel("Scale", {{"factor", 0.5}}, {x}, {x.spec}, {}))[0].floats,
            std::vector<float>({0.5f, -1.0f, 0.25f}));
}

}  // namespace
}  // namespace shoal::cpu
