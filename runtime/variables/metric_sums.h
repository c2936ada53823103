// Sums of the model's metrics over batches, steps and evaluations. The loss has fields of its own,
// and so has the accuracy of models that count correct predictions.
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

// One metric: a sum and a weight or, for the kind AUC, a histogram from which FinishHistograms
// computes them. A NaN sum makes every total NaN to which it is added.
struct MetricSum {
  double sum = 0;
  double weight = 0;
  std::vector<ScoreCount> histogram;  // Bins may repeat.
};

// The metrics in the order of ModelDeclaration.metrics; empty if the model has none.
using MetricSums = std::vector<MetricSum>;

// Adds to `total`, which grows if `part` has more metrics.
void AddMetrics(const MetricSums& part, MetricSums* total);

// Computes sum and weight of the metrics that have a histogram.
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

// Removes the metric "accuracy" and returns its value, because it is shown beside the loss. A
// compute program counts it like its other metrics.
std::optional<double> TakeAccuracy(std::map<std::string, std::optional<double>>* named);

// Returns why a model cannot have a metric of this name: a character that is not allowed, or a
// field of metrics.jsonl that has the name. The caller puts "metric NAME: " before the message.
absl::Status CheckMetricName(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_METRIC_SUMS_H_
