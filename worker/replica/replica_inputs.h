#ifndef SHOAL_WORKER_REPLICA_REPLICA_INPUTS_H_
#define SHOAL_WORKER_REPLICA_REPLICA_INPUTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/graph_program.h"
#include "worker/replica/model_factory.h"

namespace shoal {

// Returns a factory of the model that the run file names or describes.
ModelFactory ModelFromRunFile();

// Everything that a replica needs and that follows from the run alone: data, model, and their
// declaration for the chief. It needs neither chief nor ps, so it also serves to check whether a
// run can start.
struct ReplicaInputs {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;  // Null: the data has no test split, and nothing is evaluated.
  std::optional<BatchPlan> train_plan;
  std::optional<BatchPlan> test_plan;  // Set where `test` is.
  std::unique_ptr<GraphProgram> program;
  v1::ModelDeclaration declaration;
  // Warnings for the user about this model and this data, one line each.
  std::vector<std::string> notices;
};

// Reads the data and builds the model. Errors name the field or file that does not fit.
absl::StatusOr<ReplicaInputs> LoadReplicaInputs(const v1::RunConfig& run, uint32_t replica_id,
                                                const ModelFactory& model);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_REPLICA_INPUTS_H_
