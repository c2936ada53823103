#include "runtime/variables/metric_sums.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace shoal {
void AddMetrics(const MetricSums& part, MetricSums* total) {
  if (total->size() < part.size()) total->resize(part.size());
  for (size_t m = 0; m < part.size(); ++m) {
    MetricSum& metric = (*total)[m];
    metric.sum += part[m].sum;
    metric.weight += part[m].weight;
    metric.histogram.insert(metric.histogram.end(), part[m].histogram.begin(),
                            part[m].histogram.end());
  }
}

void FinishHistograms(MetricSums* sums) {
  for (MetricSum& metric : *sums) {
    if (metric.histogram.empty()) continue;
    if (std::isnan(metric.sum)) {
      metric.histogram.clear();
      continue;
    }
    const auto [sum, weight] = AreaUnderCurve(std::move(metric.histogram));
    metric = {sum, weight, {}};
  }
}

std::optional<double> MetricValue(const MetricSum& metric) {
  const double value = metric.sum / metric.weight;
  if (!(metric.weight > 0) || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<double> TakeAccuracy(std::map<std::string, std::optional<double>>* named) {
  const auto found = named->find("accuracy");
  if (found == named->end()) return std::nullopt;
  const std::optional<double> accuracy = found->second;
  named->erase(found);
  return accuracy;
}

absl::Status CheckMetricName(absl::string_view name) {
  const bool is_name = !name.empty() && name.size() <= kMostMetricNameBytes &&
                       std::all_of(name.begin(), name.end(), [](char c) {
                         return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                                c == '.' || c == '/' || c == '-';
                       });
  if (!is_name) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a metric's name has 1 to ", kMostMetricNameBytes, " of A-Z a-z 0-9 _ . / -; rename it"));
  }
  for (const absl::string_view field :
       {"step", "epoch", "loss", "examples", "examples_per_second", "learning_rate", "staleness"}) {
    if (name == field) {
      return absl::InvalidArgumentError("metrics.jsonl has a field of this name; rename it");
    }
  }
  if (absl::StartsWith(name, "eval_")) {
    return absl::InvalidArgumentError(
        "names that begin with eval_ are those of evaluations in metrics.jsonl; drop eval_, since "
        "every metric is evaluated too");
  }
  return absl::OkStatus();
}

}  // namespace shoal
