// `shoal predict`, and `PROGRAM predict` of a program with a model of its own: what a checkpoint's
// model says of examples, split over devices of this process.
#ifndef SHOAL_WORKER_PREDICTION_PREDICT_COMMAND_H_
#define SHOAL_WORKER_PREDICTION_PREDICT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/tensor/tensor.h"
#include "proto/v1/run_config.pb.h"
#include "worker/model_factory.h"

namespace shoal {

class Checkpoint;
class Dataset;

// Writes the predictions and says where; returns the exit code. The model is the program's own;
// null: the one that the run file names or describes.
int PredictMain(absl::Span<const std::string> args, const ModelFactory* own_model);

struct PredictOptions {
  v1::RunConfig run;  // resolved: model, devices, threads, batch_size (per device)
  const ModelFactory* own_model = nullptr;  // a program's; null: the run file's
  bool probabilities = false;
  std::string input_file;  // file with the examples; empty: the run's own
};

struct Predictions {
  Tensor rows;                               // one for each example, in order: float32
  std::vector<std::string> missing_devices;  // CPUs were used instead
};

// The model's outputs for each example's first field. A program's own model is built for the fields
// of the run's examples, labels too, so the run's test split must still be there.
// FailedPrecondition if the examples or the run's model do not fit the checkpoint, naming the
// variable, or the input file and the shape that it should have.
absl::StatusOr<Predictions> PredictDataset(const PredictOptions& options, const Dataset& data,
                                           Checkpoint* checkpoint);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_PREDICT_COMMAND_H_
