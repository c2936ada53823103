// `shoal predict`: what a checkpoint's model says of examples, split over devices of this process.
#ifndef SHOAL_DEPLOY_PREDICT_COMMAND_H_
#define SHOAL_DEPLOY_PREDICT_COMMAND_H_

#include <string>
#include <vector>

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
  std::string input_file;  // that the examples are of; empty: they are the run's own
};

struct Predictions {
  Tensor rows;                               // one for each example, in order: float32
  std::vector<std::string> missing_devices;  // CPUs were used instead
};

// The model's outputs for each example's first field.
// FailedPrecondition if the examples or the run's model do not fit the checkpoint, naming the
// variable, or the input file and the shape that it should have.
absl::StatusOr<Predictions> PredictDataset(const PredictOptions& options, const Dataset& data,
                                           Checkpoint* checkpoint);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_PREDICT_COMMAND_H_
