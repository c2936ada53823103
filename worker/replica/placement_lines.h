#ifndef SHOAL_WORKER_REPLICA_PLACEMENT_LINES_H_
#define SHOAL_WORKER_REPLICA_PLACEMENT_LINES_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

#include "ml/deploy/model_deploy.h"
#include "ml/graph/compiler.h"
#include "ml/graph/graph.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {

// Returns lines for the user that say where a deployed training graph keeps and computes what:
// "variable NAME [SHAPE] on DEVICE, DEVICE" in the order of declaration, "table NAME [DIM], 16
// buckets on the parameter servers", "clone 0 on DEVICE", and with log_device_placement "gradient
// NODE of VARIABLE on DEVICE" for each clone and "gradients of VARIABLE summed on DEVICE". Returns
// none if the graph cannot be placed.
std::vector<std::string> PlacementLines(const v1::DeploymentOptions& deployment,
                                        const PlacerOptions& placer, const Graph& graph,
                                        const DeployedModel& model,
                                        absl::Span<const v1::VariableSpec> tables);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_PLACEMENT_LINES_H_
