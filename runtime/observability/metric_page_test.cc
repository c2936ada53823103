#include "runtime/observability/metric_page.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/observability/metric.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(MetricPageTest, SamplesOfOneNameAreOneFamily) {
  MetricPage page;
  page.SetLabels({{"role", "chief"}});
  page.AddCounter("shoal_steps_total", "Steps.", 7);
  page.SetLabels({{"role", "worker"}});
  page.AddGauge("shoal_loss", "Loss.", 0.5);
  page.AddCounter("shoal_steps_total", "Steps.", 3, {{"kind", "a \"b\""}});
  const std::string text = page.ToText();
  EXPECT_EQ(Count(text, "# TYPE shoal_steps_total counter"), 1u) << text;
  EXPECT_EQ(Count(text, "# HELP shoal_steps_total Steps."), 1u) << text;
  EXPECT_THAT(text, HasSubstr("shoal_steps_total{role=\"chief\"} 7"));
  EXPECT_THAT(text, HasSubstr("shoal_steps_total{role=\"worker\",kind=\"a \\\"b\\\"\"} 3"));
  EXPECT_THAT(text, HasSubstr("shoal_loss{role=\"worker\"} 0.5"));
}

TEST(MetricPageTest, BucketsAreCumulativeAndEndAtInfinity) {
  MetricHistogram steps(BoundsOfSteps());
  for (const double value : {0.0, 1.0, 2.0, 3.0, 5000.0}) steps.Observe(value);
  MetricPage page;
  page.AddHistogram("shoal_push_staleness_steps", "Staleness.", steps);
  const std::string text = page.ToText();
  EXPECT_THAT(text, HasSubstr("_bucket{le=\"0\"} 1"));
  EXPECT_THAT(text, HasSubstr("_bucket{le=\"2\"} 3"));
  EXPECT_THAT(text, HasSubstr("_bucket{le=\"4\"} 4"));
  EXPECT_THAT(text, HasSubstr("_bucket{le=\"1024\"} 4"));
  EXPECT_THAT(text, HasSubstr("_bucket{le=\"+Inf\"} 5"));
  EXPECT_THAT(text, HasSubstr("_count 5"));
  EXPECT_THAT(text, HasSubstr("_sum 5006"));
}

TEST(MetricHistogramTest, AValueOnABoundIsInItsBucket) {
  MetricHistogram seconds(BoundsOfSeconds());
  seconds.Observe(0.0005);
  seconds.Observe(0.00051);
  seconds.Observe(1e9);
  EXPECT_EQ(seconds.count(0), 1u);
  EXPECT_EQ(seconds.count(1), 1u);
  EXPECT_EQ(seconds.count(seconds.bounds().size()), 1u);
}

TEST(MetricHistogramTest, HasRoomForAllBounds) {
  EXPECT_LE(BoundsOfSeconds().size(), MetricHistogram::kMaxBounds);
  EXPECT_LE(BoundsOfSteps().size(), MetricHistogram::kMaxBounds);
}

}  // namespace
}  // namespace shoal
