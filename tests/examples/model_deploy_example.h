// The example from the documentation of TF-Slim's model_deploy, written with Shoal's library. It
// trains a classifier on two clones with momentum and writes its summaries to a folder.
#ifndef SHOAL_TESTS_EXAMPLES_MODEL_DEPLOY_EXAMPLE_H_
#define SHOAL_TESTS_EXAMPLES_MODEL_DEPLOY_EXAMPLE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

struct ModelDeployExampleOptions {
  std::string log_directory;  // receives event files for TensorBoard
  int64_t num_steps = 100;
  int64_t batch_size = 32;  // per clone
  double learning_rate = 0.1;
  double momentum = 0.9;
};

// Trains on a data set with a field of inputs and a field of labels (float32 [1], 0 or 1). Returns
// the loss of the last step.
absl::StatusOr<float> RunModelDeployExample(const Dataset& dataset,
                                            const ModelDeployExampleOptions& options);

}  // namespace shoal

#endif  // SHOAL_TESTS_EXAMPLES_MODEL_DEPLOY_EXAMPLE_H_
