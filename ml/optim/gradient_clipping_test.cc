#include "ml/optim/gradient_clipping.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(GradientClippingTest, SumOfSquaresIsInDoubleForEveryLength) {
  for (size_t n : {0, 1, 15, 16, 17, 100, 1000}) {
    std::vector<float> values(n);
    double expected = 0;
    for (size_t i = 0; i < n; ++i) {
      values[i] = static_cast<float>(i) * 0.25f - 3;
      expected += static_cast<double>(values[i]) * values[i];
    }
    EXPECT_DOUBLE_EQ(SumOfSquares(values), expected) << n;
  }
  const std::vector<float> huge(4, 1e30f);  // overflows a float
  EXPECT_NEAR(SumOfSquares(huge) / 4e60, 1, 1e-6);
}

TEST(GradientClippingTest, ScaleBringsALongGradientToTheNorm) {
  const std::vector<float> gradient = {3, 4};
  EXPECT_FLOAT_EQ(ClipScale(SumOfSquares(gradient), 1), 0.2f);
  EXPECT_EQ(ClipScale(SumOfSquares(gradient), 5), 1);
  EXPECT_EQ(ClipScale(SumOfSquares(gradient), 100), 1);
  EXPECT_EQ(ClipScale(0, 1), 1);
}

TEST(GradientClippingTest, ANormThatIsNotFiniteGivesNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(ClipScale(SumOfSquares({1, infinity}), 1)));
  EXPECT_TRUE(std::isnan(ClipScale(SumOfSquares({1, std::nanf("")}), 1)));
}

}  // namespace
}  // namespace shoal
