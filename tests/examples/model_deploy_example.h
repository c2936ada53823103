// The program that TF-Slim's model_deploy shows in its documentation, in ours: a classifier on two
// clones, trained with momentum, its summaries written to a folder.
#ifndef SHOAL_TESTS_EXAMPLES_MODEL_DEPLOY_EXAMPLE_H_
#define SHOAL_TESTS_EXAMPLES_MODEL_DEPLOY_EXAMPLE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

struct ModelDeployExampleOptions {
  std::string log_directory;  // gets event files for TensorBoard
  int64_t num_steps = 100;
  int64_t batch_size = 32;  // per clone
  double learning_rate = 0.1;
  double momentum = 0.9;
};

// Trains on a data set with a field of inputs and a field of labels, float32 [1] in {0, 1}. Returns
// the last step's loss.
absl::StatusOr<float> RunModelDeployExample(const Dataset& dataset,
                                            const ModelDeployExampleOptions& options);

}  // namespace shoal

#endif  // SHOAL_TESTS_EXAMPLES_MODEL_DEPLOY_EXAMPLE_H_
