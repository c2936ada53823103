#include "runtime/observability/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

TEST(HistogramTest, LimitsAreThoseOfTensorFlow) {
  const std::vector<double>& limits = DefaultBucketLimits();
  EXPECT_EQ(limits.size(), 1551u);  // 774 limits and the largest double on each side, and 0
  EXPECT_TRUE(std::is_sorted(limits.begin(), limits.end()));
  EXPECT_EQ(limits.front(), -kLargest);
  EXPECT_EQ(limits.back(), kLargest);
  EXPECT_EQ(limits[775], 0);
  EXPECT_EQ(limits[776], 1e-12);
  EXPECT_EQ(limits[777], 1e-12 * 1.1);
  EXPECT_EQ(limits[774], -1e-12);
}

TEST(HistogramTest, AValueIsInTheFirstBucketThatEndsAboveIt) {
  ValueHistogram histogram;
  histogram.Add({0.0f, 0.0f, 5e-13f, -3.0f});
  EXPECT_EQ(histogram.num(), 4u);
  EXPECT_EQ(histogram.min(), -3);
  EXPECT_EQ(histogram.max(), static_cast<double>(5e-13f));
  EXPECT_DOUBLE_EQ(histogram.sum(), -3 + static_cast<double>(5e-13f));
  EXPECT_DOUBLE_EQ(histogram.sum_squares(), 9);
  double counted = 0;
  double end_before = -kLargest;
  for (const ValueHistogram::Bucket& bucket : histogram.buckets()) {
    if (bucket.count == 1) {
      EXPECT_LE(end_before, -3);
      EXPECT_GT(bucket.limit, -3);
    } else if (bucket.count == 3) {
      EXPECT_EQ(end_before, 0);
      EXPECT_EQ(bucket.limit, 1e-12);
    }
    counted += bucket.count;
    end_before = bucket.limit;
  }
  EXPECT_EQ(counted, 4);
}

TEST(HistogramTest, ARunOfEmptyBucketsIsOne) {
  ValueHistogram histogram;
  histogram.Add({1.0f});
  const auto buckets = histogram.buckets();
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].count, 0);
  EXPECT_EQ(buckets[1].count, 1);
  EXPECT_EQ(buckets[2].count, 0);
  EXPECT_EQ(buckets[2].limit, kLargest);
}

TEST(HistogramTest, NoValuesAreOneEmptyBucket) {
  const auto buckets = ValueHistogram().buckets();
  ASSERT_EQ(buckets.size(), 1u);
  EXPECT_EQ(buckets[0].limit, kLargest);
  EXPECT_EQ(buckets[0].count, 0);
}

TEST(HistogramTest, NonFiniteValuesAreNotedAndNotCounted) {
  ValueHistogram histogram;
  histogram.Add({1.0f, std::nanf(""), std::numeric_limits<float>::infinity()});
  EXPECT_EQ(histogram.num(), 1u);
  EXPECT_EQ(histogram.sum(), 1);
  EXPECT_FALSE(histogram.is_finite());
}

}  // namespace
}  // namespace shoal
