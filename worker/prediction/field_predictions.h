#ifndef SHOAL_WORKER_PREDICTION_FIELD_PREDICTIONS_H_
#define SHOAL_WORKER_PREDICTION_FIELD_PREDICTIONS_H_

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/deploy/parallel_graph.h"
#include "ml/tensor/tensor.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "worker/replica/parallel_model.h"

namespace shoal {

struct FieldPredictionOptions {
  v1::RunConfig run;               // resolved: its tables, batch_size and data are used
  ParallelModelSpec::Model model;  // gets the placeholders of the input fields
  ParallelModelOptions parallel;   // its first device computes everything
};

// Returns whether PredictFields must be used: an example has columns of ids, or the checkpoint has
// tables.
bool NeedsFieldPredictions(const Dataset& data, const Checkpoint& checkpoint);

// Returns the first output of the model for each example, in order. The model may have ragged
// fields and tables, whose rows are read from the checkpoint as far as the examples need them.
// FailedPrecondition names the variable that does not fit the checkpoint; InvalidArgument names
// the table or the column that does not fit the model.
absl::StatusOr<Tensor> PredictFields(const FieldPredictionOptions& options, const Dataset& data,
                                     Checkpoint* checkpoint, VariableValues which);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_FIELD_PREDICTIONS_H_
