// Normalizations as functions on a GraphBuilder: see layers.h.
#ifndef SHOAL_ML_NN_NORMALIZATION_LAYERS_H_
#define SHOAL_ML_NN_NORMALIZATION_LAYERS_H_

#include <cstdint>
#include <string>

#include "ml/graph/graph_builder.h"

namespace shoal {

struct BatchNormOptions {
  double decay =
      0.99;  // decay of the moving averages: 1 - momentum where momentum weighs the new value
  double epsilon = 1e-3;
  bool use_scale = true;   // gamma; else 1
  bool use_offset = true;  // beta; else 0
  double scale_initial_value = 1;
  bool is_training = true;
  // In training the moments are those of all clones' examples together, forward and backward: two
  // clones of b examples compute what one of 2b does. By plain ops, slower than without. Every
  // clone must build the layer.
  bool sync_clones = false;
  std::string scope = "";  // default: BatchNorm, BatchNorm_1, ...
};
// Normalizes each channel over the batch (and the pixels), in training with the batch's moments,
// whose moving averages become update ops; else with the averages.
Output BatchNorm(GraphBuilder& builder, Output x, const BatchNormOptions& options);

struct LayerNormOptions {
  double epsilon = 1e-5;
  bool use_scale = true;   // gamma; else 1
  bool use_offset = true;  // beta; else 0
  int64_t axis = -1;       // the first of the dimensions that are normalized together
  std::string scope = "";  // default: LayerNorm, LayerNorm_1, ...
};
// Normalizes the dimensions from `axis` on of each example by themselves.
Output LayerNorm(GraphBuilder& builder, Output x, const LayerNormOptions& options);

struct LocalResponseNormOptions {
  int64_t depth_radius = 5;
  double bias = 1;
  double alpha = 1;
  double beta = 0.5;
};
// Krizhevsky et al. 2012, TensorFlow's form: x / (bias + alpha * sum of squares)^beta over the
// channels at most depth_radius away, of the same pixel.
Output LocalResponseNorm(GraphBuilder& builder, Output images,
                         const LocalResponseNormOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_NORMALIZATION_LAYERS_H_
