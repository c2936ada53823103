// What batches, steps and evaluations say of the metrics that the run's model has beside the loss
// and, for models that count correct predictions in a field of its own, the accuracy.
#ifndef SHOAL_RUNTIME_VARIABLES_METRIC_SUMS_H_
#define SHOAL_RUNTIME_VARIABLES_METRIC_SUMS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "runtime/variables/score_histogram.h"

namespace shoal {

// The limits of a run's metrics. A block of test data has at most kMostScoreCounts bins that are
// not empty in all histograms together, so that its report fits into a message.
inline constexpr size_t kMostMetrics = 16;
inline constexpr size_t kMostMetricNameBytes = 64;
inline constexpr size_t kMostScoreCounts = 65536;

// One metric: a sum and a weight, or for the kind AUC a histogram that becomes them in the end. A
// sum that is NaN makes that of everything it is added to NaN.
struct MetricSum {
  double sum = 0;
  double weight = 0;
  std::vector<ScoreCount> histogram;  // Bins may repeat.
};

// In the order of ModelDeclaration.metrics; empty if the model has none.
using MetricSums = std::vector<MetricSum>;

// Adds to `total`, which grows if `part` has more metrics.
void AddMetrics(const MetricSums& part, MetricSums* total);

// Makes sums and weights of the histograms.
void FinishHistograms(MetricSums* sums);

// Returns the value; none if the weight is 0 or the value is not finite.
std::optional<double> MetricValue(const MetricSum& metric);

// Returns the values by name. `names` are in the order of `sums`; a metric without a sum has no
// value.
template <typename Names>
std::map<std::string, std::optional<double>> NameMetrics(const Names& names,
                                                         const MetricSums& sums) {
  std::map<std::string, std::optional<double>> named;
  size_t at = 0;
  for (const std::string& name : names) {
    named[name] = at < sums.size() ? MetricValue(sums[at]) : std::nullopt;
    ++at;
  }
  return named;
}

// Removes the metric "accuracy", which a compute program counts like its other ones and which is
// shown beside the loss. Returns its value.
std::optional<double> TakeAccuracy(std::map<std::string, std::optional<double>>* named);

// Returns why a model cannot have a metric of this name: its characters, or a field of
// metrics.jsonl that has it. The caller puts "metric NAME: " before the message.
absl::Status CheckMetricName(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_METRIC_SUMS_H_
