// The metrics of a model (ModelOutputs::metrics) on the clones of a replica.
#ifndef SHOAL_WORKER_REPLICA_GRAPH_METRICS_H_
#define SHOAL_WORKER_REPLICA_GRAPH_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/model.h"
#include "runtime/variables/score_histogram.h"

namespace shoal {

// A metric of a whole replica.
struct ReplicaMetric {
  std::string name;
  Output sum, weight;  // summed over the clones; the weight may be not valid, as in ModelMetric
  // The metric of each clone, if it is the area under a curve of scores, which has no sum.
  std::vector<ModelMetric> scored;
};

// Adds the sums over the clones to the graph; `clones` has what the model returned for each of
// them. InvalidArgument names a metric that is not possible.
absl::StatusOr<std::vector<ReplicaMetric>> SumMetrics(
    const std::vector<std::vector<ModelMetric>>& clones, GraphBuilder* builder);

// The outputs of a graph with the scores and the labels of one clone's examples.
struct ScoredExamples {
  size_t clone = 0;
  int scores = -1, labels = -1;  // indices of outputs
};

// Returns the histogram of the scores of all clones; clone c has clone_examples[c] examples. It is
// sorted by bin, and empty if a score is NaN.
std::vector<ScoreCount> CountScores(const std::vector<ScoredExamples>& scored,
                                    const std::vector<int64_t>& clone_examples,
                                    absl::Span<void* const> outputs);

// Checks that a model has the same metrics in training and in evaluation.
absl::Status CheckSameMetrics(const std::vector<ReplicaMetric>& train,
                              const std::vector<ReplicaMetric>& evaluate);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_GRAPH_METRICS_H_
