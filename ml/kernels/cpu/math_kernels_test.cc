// Tests the functions with attributes at their limits and for large arguments, and compares powers
// with the C library.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

using testing::ElementsAre;
using testing::IsNan;

const float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> Apply(const std::string& op, const std::vector<float>& x, CpuIsa isa,
                         const Attributes& attributes = {}) {
  const Value value = Floats({static_cast<int64_t>(x.size())}, x);
  return (*RunKernel(op, attributes, {value}, {value.spec}, {1, isa}))[0].floats;
}

std::vector<float> Powers(const std::vector<float>& a, const std::vector<float>& b, CpuIsa isa) {
  const Value x = Floats({static_cast<int64_t>(a.size())}, a);
  const Value y = Floats({static_cast<int64_t>(b.size())}, b);
  return (*RunKernel("Pow", {}, {x, y}, {x.spec}, {1, isa}))[0].floats;
}

TEST(PowTest, AgreesWithTheMathLibrary) {
  std::vector<float> bases, exponents;
  for (float a : {-1e6f, -3.0f, -1.0f, -0.7f, -1e-30f, 0.0f, 1e-42f, 1e-20f, 0.3f, 0.9999f, 1.0f,
                  1.0001f, 2.0f, 17.5f, 3e8f, 3e38f, kInfinity}) {
    for (float b : {-1e9f, -130.0f, -7.0f, -2.5f, -1.0f, -0.01f, 0.0f, 0.3f, 1.0f, 2.0f, 3.0f, 4.7f,
                    31.0f, 126.0f, 1e4f, 16777217.0f, 1e30f}) {
      bases.push_back(a);
      exponents.push_back(b);
    }
  }
  for (CpuIsa isa : AllIsas()) {
    const std::vector<float> got = Powers(bases, exponents, isa);
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(testing::Message() << bases[i] << " to the power " << exponents[i]);
      const double want = std::pow(static_cast<double>(bases[i]), exponents[i]);
      const float rounded = static_cast<float>(want);
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(got[i])) << got[i];
      } else if (std::isinf(rounded)) {
        EXPECT_EQ(std::abs(got[i]), kInfinity);
      } else {
        // Numbers below the smallest normal one have fewer digits.
        EXPECT_NEAR(got[i], want, std::abs(want) * 1.3e-7 + 2e-38);
      }
    }
  }
}

TEST(PowTest, NonNumbersAreThoseOfTheMathLibrary) {
  for (CpuIsa isa : AllIsas()) {
    EXPECT_THAT(Powers({kNan, kNan, 2, 1, -8, -8}, {2.5f, 0, kNan, kNan, 1.5f, 3}, isa),
                ElementsAre(IsNan(), 1.0f, IsNan(), 1.0f, IsNan(), -512.0f));
  }
}

TEST(PowTest, OneExponentForAllElementsGivesTheSameAsOneEach) {
  const std::vector<float> a = {0.3f, 1.7f, 2.0f, 9.5f, 0.01f};
  for (CpuIsa isa : AllIsas()) {
    for (float b : {-1.0f, -0.5f, 0.0f, 0.5f, 1.0f, 2.0f, 3.0f, 2.2f}) {
      const Value x = Floats({5}, a), y = Floats({}, {b});
      const std::vector<float> got = (*RunKernel("Pow", {}, {x, y}, {x.spec}, {1, isa}))[0].floats;
      EXPECT_LE(LargestError(got, Powers(a, std::vector<float>(5, b), isa)), 3e-7) << b;
    }
  }
}

TEST(ActivationTest, LargeArgumentsReachTheLimits) {
  const std::vector<float> x = {-1000, -100, -20, 20, 100, 1000};
  const Attributes by_tanh{{"approximate", std::string("tanh")}};
  for (CpuIsa isa : AllIsas()) {
    EXPECT_THAT(Apply("Gelu", x, isa), ElementsAre(0, 0, 0, 20, 100, 1000));
    EXPECT_THAT(Apply("Gelu", x, isa, by_tanh), ElementsAre(0, 0, 0, 20, 100, 1000));
    EXPECT_THAT(Apply("Erf", x, isa), ElementsAre(-1, -1, -1, 1, 1, 1));
    EXPECT_THAT(Apply("Clip", x, isa, {{"min", 0.0}, {"max", 6.0}}), ElementsAre(0, 0, 0, 6, 6, 6));
    EXPECT_EQ(Apply("Elu", x, isa)[0], -1);
    EXPECT_EQ(Apply("Softplus", x, isa)[0], 0);
    EXPECT_EQ(Apply("Softplus", x, isa)[5], 1000);
  }
}

TEST(ActivationTest, EluIsExactNearZero) {
  const std::vector<float> x = {-1e-6f, -1e-3f, -0.3f, -0.35f, -2};
  for (CpuIsa isa : AllIsas()) {
    const std::vector<float> y = Apply("Elu", x, isa);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = std::expm1(static_cast<double>(x[i]));
      EXPECT_NEAR(y[i], want, 5e-7 * std::abs(want)) << x[i];
    }
  }
}

}  // namespace
}  // namespace shoal::cpu
