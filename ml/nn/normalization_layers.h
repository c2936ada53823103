// Normalization layers, as functions on a GraphBuilder; see layers.h.
#ifndef SHOAL_ML_NN_NORMALIZATION_LAYERS_H_
#define SHOAL_ML_NN_NORMALIZATION_LAYERS_H_

#include <cstdint>
#include <string>

#include "ml/graph/graph_builder.h"

namespace shoal {

struct BatchNormOptions {
  double decay = 0.99;  // average' = decay * average + (1 - decay) * moment
  double epsilon = 1e-3;
  bool use_scale = true;   // gamma; else 1
  bool use_offset = true;  // beta; else 0
  double scale_initial_value = 1;
  bool is_training = true;
  // In training, computes the moments over the examples of all clones, forward and backward, so
  // that two clones of b examples compute the same as one clone of 2b. It uses several ops instead
  // of a fused one and is slower. Every clone must build the layer.
  bool sync_clones = false;
  std::string scope = "";  // default: BatchNorm, BatchNorm_1, ...
};
// Normalizes each channel over the batch and the pixels. In training it uses the moments of the
// batch and adds update ops for their moving averages; otherwise it uses the moving averages.
Output BatchNorm(GraphBuilder& builder, Output x, const BatchNormOptions& options);

struct LayerNormOptions {
  double epsilon = 1e-5;
  bool use_scale = true;   // gamma; else 1
  bool use_offset = true;  // beta; else 0
  int64_t axis = -1;       // the first dimension to normalize; all later ones are included
  std::string scope = "";  // default: LayerNorm, LayerNorm_1, ...
};
// Normalizes, for each index of the dimensions before `axis`, over all dimensions from `axis` on.
Output LayerNorm(GraphBuilder& builder, Output x, const LayerNormOptions& options);

struct LocalResponseNormOptions {
  int64_t depth_radius = 5;
  double bias = 1;
  double alpha = 1;
  double beta = 0.5;
};
// Local response normalization (Krizhevsky et al. 2012) as TensorFlow defines it: x / (bias + alpha
// * s)^beta, where s is the sum of squares of the same pixel over the channels that are at most
// depth_radius away.
Output LocalResponseNorm(GraphBuilder& builder, Output images,
                         const LocalResponseNormOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_NORMALIZATION_LAYERS_H_
