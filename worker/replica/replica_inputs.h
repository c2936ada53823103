#ifndef SHOAL_WORKER_REPLICA_REPLICA_INPUTS_H_
#define SHOAL_WORKER_REPLICA_REPLICA_INPUTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/model_factory.h"
#include "worker/replica/replica_program.h"

namespace shoal {

// Returns a factory of the model that the run file names or describes.
ModelFactory ModelFromRunFile();

// Opens a split of the run's data: that of the program itself if the model brings data of its own.
// NotFound: the data has no test split.
absl::StatusOr<std::unique_ptr<Dataset>> OpenRunData(const v1::RunConfig& run, DataSplit split,
                                                     const ModelFactory& model);

// Everything that a replica needs and that follows from the run alone: data, model, and their
// declaration for the chief. It needs neither chief nor ps, so it also serves to check whether a
// run can start.
struct ReplicaInputs {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> test;  // Null: the data has no test split, and nothing is evaluated.
  std::optional<BatchPlan> train_plan;
  std::optional<BatchPlan> test_plan;  // Set where `test` is.
  std::unique_ptr<ReplicaProgram> program;
  v1::ModelDeclaration declaration;
  // Warnings for the user about this model and this data, one line each.
  std::vector<std::string> notices;
  // Devices of clones that this build or machine does not have (MissingDevicesOfClones); CPUs take
  // their places.
  std::vector<std::string> missing_devices;
  std::vector<std::string> placement;  // Lines for the user: see GraphProgram::PlacementLines.
  // Writes the initial values that a compute program gives, and sets declaration.initial_values. To
  // be called once the chief has accepted the declaration. Null for other models.
  std::function<absl::Status(v1::ModelDeclaration* declaration)> write_initial_values;
  // Called if the run refuses the declaration. Returns `why`, or a better message with its code,
  // which names the place in the user's program. May be null.
  std::function<absl::Status(const absl::Status& why)> refused;
  // Called once when nothing more is computed, with the reason. May be null.
  std::function<void(const absl::Status& why)> finish;
};

// Sets the plans of the batches of inputs->train and inputs->test. InvalidArgument: the batch size
// does not fit the data.
absl::Status PlanBatches(const v1::RunConfig& run, ReplicaInputs* inputs);

// Returns what a worker with this program, data and plans declares to the chief.
v1::ModelDeclaration DeclareModel(const ReplicaInputs& inputs, bool classifies);

// Reads the data and builds the model. Errors name the field or file that does not fit.
absl::StatusOr<ReplicaInputs> LoadReplicaInputs(const v1::RunConfig& run, uint32_t replica_id,
                                                const ModelFactory& model);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_REPLICA_INPUTS_H_
