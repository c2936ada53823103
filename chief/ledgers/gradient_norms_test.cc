#include "chief/ledgers/gradient_norms.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(GradientNormsTest, OneScaleOfAllSlicesInTheirOrder) {
  GradientNorms norms(1.0, 2);
  norms.Add(3, 1, 16.0);
  EXPECT_FALSE(norms.Scale(3).has_value());
  norms.Add(3, 0, 9.0);
  ASSERT_TRUE(norms.Scale(3).has_value());
  EXPECT_DOUBLE_EQ(*norms.Scale(3), 1.0 / 5.0);
  norms.Add(4, 0, 0.01);
  norms.Add(4, 1, 0.0);
  EXPECT_DOUBLE_EQ(*norms.Scale(4), 1.0);  // a short gradient stays as it is
}

TEST(GradientNormsTest, FewStepsAreRemembered) {
  GradientNorms norms(1.0, 1);
  for (uint64_t step = 0; step < 100; ++step) norms.Add(step, 0, 1.0);
  EXPECT_TRUE(norms.Scale(99).has_value());
  EXPECT_FALSE(norms.Scale(50).has_value());
}

}  // namespace
}  // namespace shoal
