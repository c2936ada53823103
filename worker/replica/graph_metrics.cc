#include "worker/replica/graph_metrics.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "ml/graph/ops.h"
#include "runtime/variables/metric_sums.h"

namespace shoal {
namespace {

absl::Status CheckMetric(const ModelMetric& metric, bool is_new) {
  const auto refused = [&metric](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("model: metric \"", metric.name, "\": ", why));
  };
  if (const absl::Status name = CheckMetricName(metric.name); !name.ok()) {
    return refused(name.message());
  }
  if (!is_new) return refused("the model has this metric twice; rename one of them");
  if (!metric.sum.valid()) return refused("has no sum");
  for (const Output& value : {metric.sum, metric.weight}) {
    if (!value.valid() || (value.shape().rank() == 0 && value.dtype() == DataType::kFloat32)) {
      continue;
    }
    return refused(absl::StrCat("its sum and weight are float32 scalars, but ", value.name(),
                                " is not one; sum it up"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ModelMetric>> SumMetrics(
    const std::vector<std::vector<ModelMetric>>& clones, GraphBuilder* builder) {
  const size_t count = clones[0].size();
  if (count > kMostMetrics) {
    return absl::InvalidArgumentError(absl::StrCat("model: has ", count, " metrics; at most ",
                                                   kMostMetrics, " are possible: leave some out"));
  }
  std::vector<ModelMetric> metrics;
  std::set<std::string> names = {"accuracy"};  // Of correct_count.
  for (size_t m = 0; m < count; ++m) {
    const ModelMetric& first = clones[0][m];
    RETURN_IF_ERROR(CheckMetric(first, names.insert(first.name).second));
    std::vector<Output> sums, weights;
    for (const std::vector<ModelMetric>& clone : clones) {
      if (clone.size() != count || clone[m].name != first.name ||
          clone[m].weight.valid() != first.weight.valid()) {
        return absl::InvalidArgumentError("model: its clones have different metrics");
      }
      sums.push_back(clone[m].sum);
      if (clone[m].weight.valid()) weights.push_back(clone[m].weight);
    }
    ModelMetric& metric = metrics.emplace_back();
    metric.name = first.name;
    metric.sum = ops::AddN(*builder, std::move(sums), "metric_sum");
    if (!weights.empty()) metric.weight = ops::AddN(*builder, std::move(weights), "metric_weight");
  }
  return metrics;
}

absl::Status CheckSameMetrics(const std::vector<ModelMetric>& train,
                              const std::vector<ModelMetric>& evaluate) {
  const auto same = [](const ModelMetric& a, const ModelMetric& b) { return a.name == b.name; };
  if (train.size() == evaluate.size() &&
      std::equal(train.begin(), train.end(), evaluate.begin(), same)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "model: has other metrics with is_training than without; return the same ones");
}

}  // namespace shoal
