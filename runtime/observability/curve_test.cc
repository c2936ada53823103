#include "runtime/observability/curve.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(CurveTest, AShortCurveHasEveryValue) {
  Curve curve;
  for (uint64_t step = 1; step <= 5; ++step) curve.Add(step, static_cast<double>(step) / 2);
  const std::vector<CurvePoint> points = curve.Points();
  ASSERT_EQ(points.size(), 5u);
  EXPECT_EQ(points[0].step, 1u);
  EXPECT_EQ(points[4].step, 5u);
  EXPECT_EQ(points[4].value, 2.5);
}

TEST(CurveTest, ALongCurveHasABoundedNumberOfMeans) {
  Curve curve;
  for (uint64_t step = 1; step <= 1000000; ++step) curve.Add(step, static_cast<double>(step));
  const std::vector<CurvePoint> points = curve.Points();
  EXPECT_LE(points.size(), Curve::kMostPoints);
  EXPECT_GE(points.size(), Curve::kMostPoints / 2 - 1);
  EXPECT_EQ(points.back().step, 1000000u);
  for (size_t i = 1; i < points.size(); ++i) {
    EXPECT_LT(points[i - 1].step, points[i].step);
    EXPECT_LT(points[i - 1].value, points[i].value);
  }
  // The mean of all steps is kept: 500000.5, but for the unequal weights of the first and last one.
  EXPECT_NEAR(points[points.size() / 2].value, 500000, 5000);
}

TEST(CurveTest, FewValuesAtLargeStepsStayApart) {
  Curve curve;
  for (uint64_t i = 1; i <= 400; ++i) curve.Add(i * 1000000, static_cast<double>(i));
  EXPECT_EQ(curve.Points().size(), 400u);
}

TEST(CurveTest, ManyValuesAtLargeStepsAreBounded) {
  Curve curve;
  for (uint64_t i = 1; i <= 5000; ++i) {
    curve.Add(i * 1000, static_cast<double>(i));
    ASSERT_LE(curve.Points().size(), Curve::kMostPoints);
  }
  EXPECT_GE(curve.Points().size(), Curve::kMostPoints / 2 - 1);
}

TEST(CurveTest, ValuesThatAreNotFiniteAreLeftOut) {
  Curve curve;
  curve.Add(1, std::nan(""));
  curve.Add(2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(curve.Points().empty());
  curve.Add(3, 1);
  EXPECT_EQ(curve.Points().size(), 1u);
}

TEST(CurveTest, ARollbackRemovesLaterPoints) {
  Curve curve;
  for (uint64_t step = 1; step <= 100; ++step) curve.Add(step, 1);
  curve.GoBackTo(60);
  EXPECT_EQ(curve.Points().back().step, 60u);
  curve.Add(61, 9);
  EXPECT_EQ(curve.Points().back().step, 61u);
  EXPECT_EQ(curve.Points().back().value, 9);
  curve.GoBackTo(0);
  EXPECT_TRUE(curve.Points().empty());
}

TEST(CurveTest, ARollbackIntoAPointRemovesThePoint) {
  Curve curve;
  for (uint64_t step = 1; step <= 100000; ++step) curve.Add(step, 1);
  curve.GoBackTo(50001);
  EXPECT_LE(curve.Points().back().step, 50001u);
  EXPECT_GT(curve.Points().back().step, 49000u);
  for (uint64_t step = 50002; step <= 100000; ++step) curve.Add(step, 1);
  EXPECT_LE(curve.Points().size(), Curve::kMostPoints);
}

}  // namespace
}  // namespace shoal
