#include "runtime/variables/metric_sums.h"

#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/variables/metric_messages.h"
#include "runtime/variables/score_histogram.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(MetricSumsTest, AddsAndNames) {
  MetricSums total;
  AddMetrics({{1, 2, {}}, {0, 0, {{3, 1, 0}, {5, 0, 1}}}}, &total);
  AddMetrics({{0.5, 1, {}}, {0, 0, {{4, 0, 1}}}}, &total);
  FinishHistograms(&total);
  EXPECT_EQ(MetricValue(total[0]), 0.5);
  EXPECT_EQ(MetricValue(total[1]), 0.0);  // The positive example has the lowest score.
  const std::vector<std::string> names = {"f1", "auc", "other"};
  EXPECT_THAT(NameMetrics(names, total),
              ElementsAre(Pair("auc", 0.0), Pair("f1", 0.5), Pair("other", std::nullopt)));
  EXPECT_EQ(MetricValue({0, 0, {}}), std::nullopt);
}

TEST(MetricSumsTest, NaNMakesASumNaNAndThereIsNoValue) {
  const double nan = std::nan("");
  MetricSums total;
  AddMetrics({{nan, 1, {}}, {nan, 1, {}}, {1, 4, {}}}, &total);
  AddMetrics({{2, 4, {}}, {0, 0, {{3, 1, 0}, {5, 0, 1}}}, {1, 4, {}}}, &total);
  FinishHistograms(&total);
  EXPECT_EQ(MetricValue(total[0]), std::nullopt);
  EXPECT_EQ(MetricValue(total[1]), std::nullopt);
  EXPECT_EQ(MetricValue(total[2]), 0.25);
}

TEST(MetricSumsTest, TheAccuracyIsTakenOutOfTheOthers) {
  std::map<std::string, std::optional<double>> named = {{"accuracy", 0.5}, {"f1", 0.25}};
  EXPECT_EQ(TakeAccuracy(&named), 0.5);
  EXPECT_EQ(TakeAccuracy(&named), std::nullopt);
  EXPECT_THAT(named, ElementsAre(Pair("f1", 0.25)));
}

TEST(MetricSumsTest, AMessageHasAllOfThem) {
  const MetricSums sums = {{1.5, 2, {}}, {0, 0, {{3, 1, 0}, {196607, 70000, 4}}}};
  v1::ReportEvaluationRequest request;
  ToProto(sums, request.mutable_metrics());
  MetricSums read;
  ASSERT_EQ(FromProto(request.metrics(), &read), absl::OkStatus());
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].sum, 1.5);
  EXPECT_EQ(read[0].weight, 2);
  ASSERT_EQ(read[1].histogram.size(), 2u);
  EXPECT_EQ(read[1].histogram[1].bin, 196607u);
  EXPECT_EQ(read[1].histogram[1].positives, 70000u);
  EXPECT_EQ(read[1].histogram[1].negatives, 4u);
}

TEST(MetricSumsTest, RefusesMessagesThatCannotBe) {
  const auto refused = [](const v1::ReportEvaluationRequest& request) {
    MetricSums sums;
    const absl::Status status = FromProto(request.metrics(), &sums);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  v1::ReportEvaluationRequest many;
  for (size_t m = 0; m <= kMostMetrics; ++m) many.add_metrics();
  EXPECT_THAT(refused(many), HasSubstr("17 metrics; at most 16"));
  v1::ReportEvaluationRequest part;
  part.add_metrics()->add_histogram(1);
  EXPECT_THAT(refused(part), HasSubstr("a part of an entry"));
  v1::ReportEvaluationRequest far;
  for (const uint32_t number : {kNumScoreBins, 1u, 1u}) {
    if (far.metrics_size() == 0) far.add_metrics();
    far.mutable_metrics(0)->add_histogram(number);
  }
  EXPECT_THAT(refused(far), HasSubstr("bin 196608; there are 196608"));
  v1::ReportEvaluationRequest round;  // The sum of the distances is above 2^32.
  round.add_metrics();
  for (const uint32_t number : {1u, 1u, 1u, UINT32_MAX, 1u, 1u}) {
    round.mutable_metrics(0)->add_histogram(number);
  }
  EXPECT_THAT(refused(round), HasSubstr("bin 4294967296"));
}

TEST(MetricSumsTest, NamesFollowRules) {
  for (const char* name : {"f1", "top_5_accuracy", "val/F1.score-2"}) {
    EXPECT_EQ(CheckMetricName(name), absl::OkStatus());
  }
  for (const std::string& name : {std::string(), std::string(65, 'x'), std::string("f 1"),
                                  std::string("f\"1"), std::string("f\xc3\xa9")}) {
    EXPECT_THAT(std::string(CheckMetricName(name).message()), HasSubstr("1 to 64 of A-Z"));
  }
  for (const char* name : {"loss", "step", "staleness"}) {
    EXPECT_THAT(std::string(CheckMetricName(name).message()), HasSubstr("a field of this name"));
  }
  EXPECT_THAT(std::string(CheckMetricName("eval_f1").message()), HasSubstr("drop eval_"));
}

}  // namespace
}  // namespace shoal
