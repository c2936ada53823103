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
  if (metric.scores.valid() != metric.labels.valid()) {
    return refused("has only one of scores and labels; give both");
  }
  if (metric.scores.valid()) {
    const bool fits = metric.scores.dtype() == DataType::kFloat32 &&
                      metric.labels.dtype() == DataType::kFloat32 &&
                      metric.scores.shape().rank() == 1 && metric.labels.shape().rank() == 1;
    return fits ? absl::OkStatus() : refused("its scores and labels must be float32 [batch]");
  }
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

std::vector<ScoreCount> CountScores(const std::vector<ScoredExamples>& scored,
                                    const std::vector<int64_t>& clone_examples,
                                    absl::Span<void* const> outputs) {
  std::vector<ScoreCount> histogram;
  for (const ScoredExamples& examples : scored) {
    const auto* scores = static_cast<const float*>(outputs[static_cast<size_t>(examples.scores)]);
    const auto* labels = static_cast<const float*>(outputs[static_cast<size_t>(examples.labels)]);
    for (int64_t i = 0; i < clone_examples[examples.clone]; ++i) {
      if (!(scores[i] >= 0 && scores[i] <= 1)) return {};
      const bool is_positive = labels[i] > 0.5f;
      histogram.push_back({ScoreBin(scores[i]), is_positive ? 1u : 0u, is_positive ? 0u : 1u});
    }
  }
  std::sort(histogram.begin(), histogram.end(),
            [](const ScoreCount& a, const ScoreCount& b) { return a.bin < b.bin; });
  size_t last = 0;
  for (size_t i = 1; i < histogram.size(); ++i) {
    if (histogram[i].bin == histogram[last].bin) {
      histogram[last].positives += histogram[i].positives;
      histogram[last].negatives += histogram[i].negatives;
    } else {
      histogram[++last] = histogram[i];
    }
  }
  histogram.resize(std::min(histogram.size(), last + 1));
  return histogram;
}

absl::StatusOr<std::vector<ReplicaMetric>> SumMetrics(
    const std::vector<std::vector<ModelMetric>>& clones, GraphBuilder* builder) {
  const size_t count = clones[0].size();
  if (count > kMostMetrics) {
    return absl::InvalidArgumentError(absl::StrCat("model: has ", count, " metrics; at most ",
                                                   kMostMetrics, " are possible: leave some out"));
  }
  std::vector<ReplicaMetric> metrics;
  std::set<std::string> names = {"accuracy"};  // The name of the metric from correct_count.
  for (size_t m = 0; m < count; ++m) {
    const ModelMetric& first = clones[0][m];
    RETURN_IF_ERROR(CheckMetric(first, names.insert(first.name).second));
    std::vector<Output> sums, weights;
    std::vector<ModelMetric> scored;
    for (const std::vector<ModelMetric>& clone : clones) {
      if (clone.size() != count || clone[m].name != first.name ||
          clone[m].weight.valid() != first.weight.valid() ||
          clone[m].scores.valid() != first.scores.valid()) {
        return absl::InvalidArgumentError(
            "model: its clones have different metrics; return the same ones for every clone");
      }
      if (first.scores.valid()) scored.push_back(clone[m]);
      sums.push_back(clone[m].sum);
      if (clone[m].weight.valid()) weights.push_back(clone[m].weight);
    }
    ReplicaMetric& metric = metrics.emplace_back();
    metric.name = first.name;
    metric.scored = std::move(scored);
    if (!metric.scored.empty()) continue;
    metric.sum = ops::AddN(*builder, std::move(sums), "metric_sum");
    if (!weights.empty()) metric.weight = ops::AddN(*builder, std::move(weights), "metric_weight");
  }
  return metrics;
}

absl::Status CheckSameMetrics(const std::vector<ReplicaMetric>& train,
                              const std::vector<ReplicaMetric>& evaluate) {
  const auto same = [](const ReplicaMetric& a, const ReplicaMetric& b) {
    return a.name == b.name && a.scored.empty() == b.scored.empty();
  };
  if (train.size() == evaluate.size() &&
      std::equal(train.begin(), train.end(), evaluate.begin(), same)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "model: has other metrics with is_training than without; return the same ones");
}

}  // namespace shoal
