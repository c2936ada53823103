// Layers as functions on a GraphBuilder: each makes its variables (or finds them, if the scope
// reuses) and adds its nodes. Names follow TF-Slim. Errors are the builder's.
//
//   net = Conv2d(builder, images, {.channels = 32, .kernel = 5, .activation = Activation::kRelu});
//
// Images are [batch, channels, height, width], convolution weights [out, in, height, width].
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

struct ConvOptions {
  int64_t channels = 0;
  int64_t kernel = 3;
  int64_t stride = 1;
  bool same_padding = true;  // output size = ceil(input size / stride); else no padding
  Activation activation = Activation::kNone;
  bool use_bias = true;
  int64_t groups = 1;
  std::optional<InitializerSpec>
      weights_initializer;                // default: He normal before ReLU, else Glorot
  InitializerSpec bias_initializer = {};  // zeros
  double weight_decay = 0;
  std::string scope = "";  // default: Conv, Conv_1, ...
};
Output Conv2d(GraphBuilder& builder, Output images, const ConvOptions& options);

struct PoolOptions {
  int64_t kernel = 2;
  int64_t stride = 0;  // 0: the kernel's size
  bool same_padding = false;
};
Output MaxPool(GraphBuilder& builder, Output images, const PoolOptions& options);
// The mean over the window's pixels that lie inside the image.
Output AveragePool(GraphBuilder& builder, Output images, const PoolOptions& options);

// [batch, ...] -> [batch, product of the others]; a matrix stays as it is.
Output Flatten(GraphBuilder& builder, Output x);

struct BatchNormOptions {
  double decay = 0.99;
  double epsilon = 1e-3;
  bool use_scale = true;   // gamma; else 1
  bool use_offset = true;  // beta; else 0
  bool is_training = true;
  std::string scope = "";  // default: BatchNorm, BatchNorm_1, ...
};
// Normalizes each channel over the batch (and the pixels), in training with the batch's moments,
// whose moving averages become update ops; else with the averages.
Output BatchNorm(GraphBuilder& builder, Output x, const BatchNormOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYERS_H_
