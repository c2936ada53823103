// MobileNetV2: Sandler et al. 2018, table 2, in the form of Keras (channels in multiples of 8).
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"
#include "ml/nn/layers.h"
#include "ml/nn/pooling_layers.h"
#include "ml/nn/zoo.h"
#include "ml/nn/zoo_parts.h"

namespace shoal::zoo {
namespace {

// The nearest multiple of 8, at least 8, not more than a tenth below.
int64_t Channels(double channels) {
  const int64_t rounded = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(rounded) < 0.9 * channels ? rounded + 8 : rounded;
}

ConvNormOptions Unit(int64_t channels, int64_t kernel, int64_t stride, Activation activation) {
  ConvNormOptions options;
  options.convolution.channels = channels;
  options.convolution.kernel = kernel;
  options.convolution.stride = stride;
  options.activation = activation;
  return options;
}

// 1x1 to `expansion` times the channels, 3x3 on each by itself, 1x1 to `channels`; the input is
// added where shapes allow it.
Output InvertedResidual(GraphBuilder& builder, Output input, int64_t channels, int64_t stride,
                        int64_t expansion, const ModelOptions& model) {
  if (!input.valid()) return {};
  const int64_t in = input.shape().dim(1);
  Output net = input;
  if (expansion > 1) {
    net = ConvNorm(builder, net, "expand", Unit(in * expansion, 1, 1, Activation::kRelu6), model);
  }
  ConvNormOptions depthwise = Unit(0, 3, stride, Activation::kRelu6);
  depthwise.is_depthwise = true;
  net = ConvNorm(builder, net, "depthwise", depthwise, model);
  net = ConvNorm(builder, net, "project", Unit(channels, 1, 1, Activation::kNone), model);
  return stride == 1 && in == channels ? ops::Add(builder, net, input) : net;
}

Output Features(GraphBuilder& builder, Output images, const ModelOptions& model) {
  constexpr struct {
    int64_t expansion, channels, repeats, stride;
  } kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  const double width = model.width_multiplier;
  Output net = ConvNorm(builder, images, "Conv",
                        Unit(Channels(32 * width), 3, 2, Activation::kRelu6), model);
  int block = 0;
  for (const auto& stage : kStages) {
    for (int64_t i = 0; i < stage.repeats; ++i, ++block) {
      const auto scope = builder.WithVariableScope(
          block == 0 ? "expanded_conv" : absl::StrCat("expanded_conv_", block));
      net = InvertedResidual(builder, net, Channels(static_cast<double>(stage.channels) * width),
                             i == 0 ? stage.stride : 1, stage.expansion, model);
    }
  }
  const int64_t last = width > 1 ? Channels(1280 * width) : 1280;
  return ConvNorm(builder, net, "Conv_1", Unit(last, 1, 1, Activation::kRelu6), model);
}

Output Affine(GraphBuilder& builder, Output x, const char* scope, int64_t units,
              const ModelOptions& model) {
  DenseOptions options;
  options.scope = scope;
  options.units = units;
  options.weight_decay = model.weight_decay;
  return Dense(builder, x, options);
}

}  // namespace

Output MobileNetV2Features(GraphBuilder& builder, Output images, const ModelOptions& model) {
  return GlobalAveragePool(builder, Features(builder, images, model));
}

Output MobileNetV2(GraphBuilder& builder, Output images, const ModelOptions& model) {
  return Affine(builder, MobileNetV2Features(builder, images, model), "Logits", model.classes,
                model);
}

Output MobileNetV2Dense(GraphBuilder& builder, Output images, const ModelOptions& model) {
  Output net = Features(builder, images, model);
  if (!net.valid()) return {};
  // Images of less than 33 pixels leave one.
  PoolOptions pool;
  pool.kernel =
      Size2(std::min<int64_t>(2, net.shape().dim(2)), std::min<int64_t>(2, net.shape().dim(3)));
  net = Affine(builder, AveragePool(builder, net, pool), "Dense", 512, model);
  return Affine(builder, net, "Logits", model.classes, model);
}

}  // namespace shoal::zoo
