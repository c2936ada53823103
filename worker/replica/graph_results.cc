#include "worker/replica/graph_results.h"

#include <algorithm>
#include <cmath>

namespace shoal {

void GraphResults::Declare(const DeployedModel& model, const std::vector<ReplicaMetric>& metrics,
                           std::vector<Output>* fetches) {
  const auto add = [fetches](const Output& output, int* index) {
    if (!output.valid()) return;
    *index = static_cast<int>(fetches->size());
    fetches->push_back(output);
  };
  add(model.data_loss, &data_loss_);
  add(model.regularization_loss, &regularization_);
  add(model.correct_count, &correct_);
  for (const ReplicaMetric& metric : metrics) {
    Metric& indices = metrics_.emplace_back();
    for (size_t clone = 0; clone < metric.scored.size(); ++clone) {
      ScoredExamples& examples = indices.scored.emplace_back();
      examples.clone = clone;
      add(metric.scored[clone].scores, &examples.scores);
      add(metric.scored[clone].labels, &examples.labels);
    }
    add(metric.sum, &indices.sum);
    add(metric.weight, &indices.weight);
  }
  count_ = static_cast<int>(fetches->size());
}

void GraphResults::ReplaceEmptyClones(const std::vector<int64_t>& clone_examples,
                                      std::vector<Output>* fetches) const {
  const Output first = fetches->empty() ? Output() : (*fetches)[0];
  for (const Metric& metric : metrics_) {
    for (const ScoredExamples& examples : metric.scored) {
      if (clone_examples[examples.clone] > 0) continue;
      (*fetches)[static_cast<size_t>(examples.scores)] = first;
      (*fetches)[static_cast<size_t>(examples.labels)] = first;
    }
  }
}

void GraphResults::Bind(const std::vector<int64_t>& clone_examples, std::vector<float>* scalars,
                        Scores* scores, std::vector<void*>* outputs) const {
  const auto count = static_cast<size_t>(count_);
  for (size_t i = 0; i < count; ++i) (*outputs)[i] = &(*scalars)[i];
  scores->resize(count);
  for (const Metric& metric : metrics_) {
    for (const ScoredExamples& examples : metric.scored) {
      const int64_t num_scores = std::max<int64_t>(1, clone_examples[examples.clone]);
      for (const int output : {examples.scores, examples.labels}) {
        std::vector<float>& memory = (*scores)[static_cast<size_t>(output)];
        memory.resize(static_cast<size_t>(num_scores));
        (*outputs)[static_cast<size_t>(output)] = memory.data();
      }
    }
  }
}

void GraphResults::Store(const std::vector<int64_t>& clone_examples,
                         const std::vector<void*>& outputs, int64_t num_examples,
                         BatchResult* result) const {
  const auto value = [&](int output) {
    return *static_cast<const float*>(outputs[static_cast<size_t>(output)]);
  };
  if (data_loss_ >= 0) {
    result->loss_sum = static_cast<double>(value(data_loss_)) * static_cast<double>(num_examples);
  }
  if (regularization_ >= 0) result->regularization = value(regularization_);
  if (correct_ >= 0) result->correct = static_cast<uint64_t>(std::llround(value(correct_)));
  result->examples = static_cast<uint64_t>(num_examples);
  result->metrics.assign(metrics_.size(), MetricSum());
  for (size_t m = 0; m < metrics_.size(); ++m) {
    const Metric& metric = metrics_[m];
    if (!metric.scored.empty()) {
      result->metrics[m].histogram = CountScores(metric.scored, clone_examples, outputs);
      continue;
    }
    result->metrics[m].sum = value(metric.sum);
    result->metrics[m].weight =
        metric.weight >= 0 ? value(metric.weight) : static_cast<double>(num_examples);
  }
}

}  // namespace shoal
