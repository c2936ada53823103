// `shoal predict`, and `PROGRAM predict` of a program with its own model: the predictions of a
// checkpoint's model for examples, computed on the devices of this process.
#ifndef SHOAL_WORKER_PREDICTION_PREDICT_COMMAND_H_
#define SHOAL_WORKER_PREDICTION_PREDICT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/tensor/tensor.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/model_factory.h"

namespace shoal {

class Checkpoint;
class Dataset;

// Runs the command and returns the exit code: writes the predictions to a file and prints its path.
// `own_model` is the program's own model; null: the one that the run file names or describes.
int PredictMain(absl::Span<const std::string> args, const ModelFactory* own_model);

struct PredictOptions {
  v1::RunConfig run;  // resolved: model, devices, threads, batch_size (per device)
  const ModelFactory* own_model = nullptr;  // the program's model; null: that of the run file
  bool probabilities = false;
  bool use_averages = false;
  std::string input_file;  // the file with the examples; empty: the run's test split
};

struct Predictions {
  Tensor rows;                               // one for each example, in order: float32
  std::vector<std::string> missing_devices;  // devices for which CPUs were used instead
  std::vector<std::string> unused_devices;   // devices that computed nothing
};

// Computes the model's outputs for each example. A program's own model is built for the fields of
// the run's examples, including labels, so the run's test split must still exist then.
// FailedPrecondition names the variable that does not fit the checkpoint, or the input file and the
// shape that it should have.
absl::StatusOr<Predictions> PredictDataset(const PredictOptions& options, const Dataset& data,
                                           Checkpoint* checkpoint);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_PREDICT_COMMAND_H_
