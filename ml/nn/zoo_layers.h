// The models of the zoo, which run files can name, as lists of layers.
#ifndef SHOAL_ML_NN_ZOO_LAYERS_H_
#define SHOAL_ML_NN_ZOO_LAYERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal::zoo {

// The largest width_multiplier of a model; all of them are above 0.
inline constexpr double kMostWidthMultiplier = 16;

struct ModelOptions {
  int64_t classes = 1000;
  double weight_decay = 0;
  bool is_training = true;
  double width_multiplier = 1;  // MobileNetV2: a factor for the numbers of channels.
  double dropout_rate = 0.5;    // Used where the model has dropout.
  // Only models of clicks use the next two: whether the data has a dense field of numbers, and the
  // size of each feature's vector.
  bool has_input = true;
  int64_t feature_dim = 16;
};

struct Model {
  const char* name;
  bool is_regression;
  // Returns the layers for images of this height and width, as text of ModelConfig.
  std::string (*layers)(const ModelOptions& options, int64_t height, int64_t width);
  // Set for models of clicks, which have one output for the labels 0 and 1; null for others.
  // `features` (text of ModelConfig) and `tables` (text of RunConfig) are used if the run file has
  // none.
  const char* features = nullptr;
  const char* tables = nullptr;
  // The run file may scale the numbers of channels (width_multiplier).
  bool has_width_multiplier = false;

  // Returns the name of the loss of a run file that names none.
  const char* loss() const {
    return features != nullptr ? "sigmoid_cross_entropy"
           : is_regression     ? "mean_squared_error"
                               : "sparse_softmax_cross_entropy";
  }
};

// Returns all models in the order in which messages and help list them.
absl::Span<const Model> Models();

// Returns null if no model has this name.
const Model* Find(absl::string_view name);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_LAYERS_H_
