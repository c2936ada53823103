// The models that runs name, written as layers.
#ifndef SHOAL_ML_NN_ZOO_LAYERS_H_
#define SHOAL_ML_NN_ZOO_LAYERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal::zoo {

struct ModelOptions {
  int64_t classes = 1000;
  double weight_decay = 0;
  bool is_training = true;
  double width_multiplier = 1;  // MobileNetV2: of all channels.
  double dropout_rate = 0.5;    // Used where the model has dropout.
};

struct Model {
  const char* name;
  bool is_regression;
  // Writes the layers for images of this height and width.
  std::string (*layers)(const ModelOptions& options, int64_t height, int64_t width);
};

// All models, in the order in which messages and help list them.
absl::Span<const Model> Models();

// Null if no model has this name.
const Model* Find(absl::string_view name);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_LAYERS_H_
