// Convolutions as functions on a GraphBuilder: see layers.h.
//
//   net = Conv2d(builder, images, {.channels = 32, .kernel = 5, .activation = Activation::kRelu});
//
// Images are [batch, channels, height, width], convolution weights [out, in / groups, height,
// width].
#ifndef SHOAL_ML_NN_CONVOLUTION_LAYERS_H_
#define SHOAL_ML_NN_CONVOLUTION_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ml/graph/graph_builder.h"
#include "ml/nn/layers.h"
#include "ml/nn/window_options.h"
#include "ml/tensor/initializer.h"

namespace shoal {

struct ConvOptions {
  int64_t channels = 0;
  Size2 kernel = 3;
  Size2 stride = 1;
  Size2 dilation = 1;
  Padding padding = {};
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

// A filter (or `multiplier` of them) for each channel by itself: options.channels and .groups are
// the input's.
Output DepthwiseConv2d(GraphBuilder& builder, Output images, ConvOptions options,
                       int64_t multiplier = 1);

// The output's size is stride times the input's with SAME padding, (input - 1) * stride + reach -
// padding else. Weights [in, out / groups, height, width]. No default scope but Conv_transpose,
// Conv_transpose_1, ...
Output ConvTranspose2d(GraphBuilder& builder, Output images, const ConvOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_CONVOLUTION_LAYERS_H_
