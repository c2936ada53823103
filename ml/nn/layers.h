// Layers as functions on a GraphBuilder: each makes its variables (or finds them, if the scope
// reuses) and adds its nodes. Names follow TF-Slim. Errors are the builder's.
//
//   net = Dense(builder, x, {.units = 512, .activation = Activation::kRelu});
//
// Layers of images are in convolution_layers.h, pooling_layers.h and normalization_layers.h.
#ifndef SHOAL_ML_NN_LAYERS_H_
#define SHOAL_ML_NN_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ml/graph/graph_builder.h"
#include "ml/nn/initializer.h"

namespace shoal {

enum class Activation { kNone, kRelu, kSigmoid, kTanh };

// x itself for kNone.
Output Activate(GraphBuilder& builder, Output x, Activation activation);

struct DenseOptions {
  int64_t units = 0;
  Activation activation = Activation::kNone;
  bool use_bias = true;
  bool scalar_bias = false;                                 // one number for all units
  std::optional<InitializerSpec> weights_initializer = {};  // default: Glorot uniform
  InitializerSpec bias_initializer = {};                    // zeros
  double weight_decay = 0;  // adds weight_decay * sum(w^2) / 2 to the regularization losses
  std::string scope = "";   // default: fully_connected, fully_connected_1, ...
  std::string weights_name = "weights";
  std::string bias_name = "biases";
};
// [batch, in] -> [batch, units]; images are flattened first. Weights [in, units].
Output Dense(GraphBuilder& builder, Output x, const DenseOptions& options);

// [batch, ...] -> [batch, product of the others]; a matrix stays as it is.
Output Flatten(GraphBuilder& builder, Output x);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYERS_H_
