#include "ml/optim/portable_math.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(PortableMathTest, PowersAgreeWithTheLibrary) {
  for (double base : {1e-300, 1e-8, 0.1, 0.7, 0.96, 0.999, 1.0, 1.5, 2.0, 1e5, 1e100}) {
    for (double exponent : {-2.5, -0.5, -0.01, 0.0, 0.3, 0.5, 0.7, 1.0, 2.25, 3.0}) {
      const double expected = std::pow(base, exponent);
      if (!std::isnormal(expected)) continue;
      EXPECT_NEAR(PortablePow(base, exponent) / expected, 1, 1e-12) << base << "^" << exponent;
    }
  }
}

TEST(PortableMathTest, WholePowersAgreeWithTheLibrary) {
  for (int64_t n : {0, 1, 2, 3, 10, 1000, 100000}) {
    EXPECT_NEAR(PortablePow(0.999, n) / std::pow(0.999, static_cast<double>(n)), 1, 1e-11) << n;
  }
  EXPECT_EQ(PortablePow(0.9, int64_t{1} << 40), 0);
}

TEST(PortableMathTest, EdgesOfPowers) {
  EXPECT_EQ(PortablePow(0.0, 0.5), 0);
  EXPECT_EQ(PortablePow(0.0, 0.0), 1);
  EXPECT_EQ(PortablePow(0.0, -0.5), std::numeric_limits<double>::infinity());
  EXPECT_EQ(PortablePow(0.25, 1.0), 0.25);
  EXPECT_TRUE(std::isnan(PortablePow(std::nan(""), 0.5)));
}

TEST(PortableMathTest, CosineAgreesWithTheLibrary) {
  for (int k = 0; k <= 1000; ++k) {
    const double x = k / 1000.0;
    EXPECT_NEAR(PortableCosPi(x), std::cos(3.14159265358979323846 * x), 1e-15) << x;
  }
}

}  // namespace
}  // namespace shoal
