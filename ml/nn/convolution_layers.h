// Convolution layers, as functions on a GraphBuilder; see layers.h.
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
  // The default is He normal before ReLU, otherwise Glorot.
  std::optional<InitializerSpec> weights_initializer;
  InitializerSpec bias_initializer = {};  // zeros
  double weight_decay = 0;
  std::string scope = "";  // default: Conv, Conv_1, ...
};
Output Conv2d(GraphBuilder& builder, Output images, const ConvOptions& options);

// Applies `multiplier` separate filters to each channel. options.channels and options.groups are
// ignored; they follow from the input.
Output DepthwiseConv2d(GraphBuilder& builder, Output images, ConvOptions options,
                       int64_t multiplier = 1);

// A transposed convolution. With SAME padding the output's size is stride * input; otherwise it is
// (input - 1) * stride + reach - padding, where reach = (kernel - 1) * dilation + 1. Weights are
// [in, out / groups, height, width]. The default scopes are Conv_transpose, Conv_transpose_1, ...
Output ConvTranspose2d(GraphBuilder& builder, Output images, const ConvOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_CONVOLUTION_LAYERS_H_
