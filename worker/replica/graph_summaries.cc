#include "worker/replica/graph_summaries.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status GraphSummaries::Declare(const DeployedModel& model, int num_results,
                                     const std::vector<uint32_t>& contributing,
                                     std::vector<Output>* fetches) {
  for (const ScalarSummary& scalar : model.summaries) {
    Summary summary;
    summary.tags.scalar = scalar.name;
    summary.value = scalar.value;
    summaries_.push_back(std::move(summary));
  }
  for (const HistogramSummary& histogram : model.histograms) {
    Summary summary;
    summary.tags.histogram = histogram.name;
    summary.tags.norm = histogram.norm_name;
    summary.value = histogram.value;
    summaries_.push_back(std::move(summary));
  }
  const int contributions_end = num_results + static_cast<int>(contributing.size());
  for (Summary& summary : summaries_) {
    if (summary.value.dtype() != DataType::kFloat32) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: ", summary.value.name(), " is summarised but not float32; cast it before"));
    }
    const auto same = std::find(fetches->begin(), fetches->end(), summary.value);
    const auto index = static_cast<int>(same - fetches->begin());
    if (index < num_results) {
      summary.result = index;
    } else if (index < contributions_end) {
      summary.variable = static_cast<int>(contributing[static_cast<size_t>(index - num_results)]);
    } else {
      summary.fetch = index;
      if (same == fetches->end()) fetches->push_back(summary.value);
    }
  }
  return absl::OkStatus();
}

void GraphSummaries::Bind(const Executable& executable, Values* values,
                          std::vector<void*>* outputs) const {
  values->resize(summaries_.size());
  for (size_t i = 0; i < summaries_.size(); ++i) {
    if (summaries_[i].fetch < 0) continue;
    const auto fetch = static_cast<size_t>(summaries_[i].fetch);
    (*values)[i].resize(static_cast<size_t>(executable.output_specs()[fetch].shape.num_elements()));
    (*outputs)[fetch] = (*values)[i].data();
  }
}

std::vector<BatchSummary> GraphSummaries::Collect(const Graph& graph,
                                                  const std::vector<float>& results,
                                                  absl::Span<float* const> contributions,
                                                  const Values& values) const {
  std::vector<BatchSummary> all;
  for (size_t i = 0; i < summaries_.size(); ++i) {
    const Summary& summary = summaries_[i];
    BatchSummary& batch = all.emplace_back(summary.tags);
    if (summary.result >= 0) {
      batch.values = absl::MakeConstSpan(&results[static_cast<size_t>(summary.result)], 1);
    } else if (summary.variable >= 0) {
      const auto variable = static_cast<size_t>(summary.variable);
      const Shape& shape = graph.variables()[variable].spec.shape;
      batch.values =
          absl::MakeConstSpan(contributions[variable], static_cast<size_t>(shape.num_elements()));
    } else {
      batch.values = values[i];
    }
  }
  return all;
}

}  // namespace shoal
