// The metrics of a model (ModelOutputs::metrics) on the clones of a replica.
#ifndef SHOAL_WORKER_REPLICA_GRAPH_METRICS_H_
#define SHOAL_WORKER_REPLICA_GRAPH_METRICS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/model.h"

namespace shoal {

// Adds the sums over the clones to the graph; `clones` has what the model returned for each of
// them. InvalidArgument names a metric that is not possible.
absl::StatusOr<std::vector<ModelMetric>> SumMetrics(
    const std::vector<std::vector<ModelMetric>>& clones, GraphBuilder* builder);

// Checks that a model has the same metrics in training and in evaluation.
absl::Status CheckSameMetrics(const std::vector<ModelMetric>& train,
                              const std::vector<ModelMetric>& evaluate);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_GRAPH_METRICS_H_
