// `shoal predict`: what a checkpoint's model says of examples, split over devices of this process.
#ifndef SHOAL_DEPLOY_PREDICT_COMMAND_H_
#define SHOAL_DEPLOY_PREDICT_COMMAND_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/tensor/tensor.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

class Checkpoint;
class Dataset;

// Writes the predictions and says where; returns the exit code.
int PredictMain(absl::Span<const std::string> args);

struct PredictOptions {
  v1::RunConfig run;  // resolved: model, devices, threads, batch_size (per device)
  bool probabilities = false;
};

// A row of predictions for each example's first field, in order: the model's outputs, float32.
// FailedPrecondition if the examples or the run's model do not fit the checkpoint, naming the
// variable.
absl::StatusOr<Tensor> PredictDataset(const PredictOptions& options, const Dataset& data,
                                      Checkpoint* checkpoint);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_PREDICT_COMMAND_H_
