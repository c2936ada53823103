#include "ml/nn/convolution_layers.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/nn/layer_parts.h"

namespace shoal {
namespace {

bool CheckChannels(GraphBuilder& builder, Output images, const ConvOptions& options) {
  if (!CheckPositive(builder, "channels", options.channels) ||
      !CheckPositive(builder, "groups", options.groups)) {
    return false;
  }
  const int64_t in = images.shape().dim(1);
  if (in % options.groups == 0 && options.channels % options.groups == 0) return true;
  FailLayer(builder, "groups",
            absl::StrCat(options.groups, " must divide the ", in, " input and ", options.channels,
                         " output channels"));
  return false;
}

Output MakeWeights(GraphBuilder& builder, const Shape& shape, DataType dtype,
                   const ConvOptions& options) {
  VariableSpec weights;
  weights.name = "weights";
  weights.shape = shape;
  weights.dtype = dtype;
  const Fan fan = FanOf(shape.dims());
  weights.initializer = options.weights_initializer.value_or(options.activation == Activation::kRelu
                                                                 ? HeNormalInitializer(fan)
                                                                 : GlorotUniformInitializer(fan));
  return builder.GetVariable(std::move(weights), options.weight_decay);
}

}  // namespace

Output Conv2d(GraphBuilder& builder, Output images, const ConvOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "Conv");
  if (!CheckInput(builder, images, 4, 4, kImages)) return {};
  if (!CheckChannels(builder, images, options)) return {};
  Attributes attributes{{"group", options.groups}};
  const Window window{options.kernel, options.stride, options.dilation, options.padding};
  if (!MakeWindowAttributes(builder, images, window, &attributes)) return {};
  const Shape shape({options.channels, images.shape().dim(1) / options.groups,
                     options.kernel.height, options.kernel.width});
  std::vector<Output> inputs = {images, MakeWeights(builder, shape, images.dtype(), options)};
  if (options.use_bias) {
    inputs.push_back(MakeParameter(builder, "biases", {images.dtype(), Shape({options.channels})},
                                   options.bias_initializer));
  }
  return Activate(builder, builder.Op("Conv", std::move(inputs), std::move(attributes)),
                  options.activation);
}

Output DepthwiseConv2d(GraphBuilder& builder, Output images, ConvOptions options,
                       int64_t multiplier) {
  if (images.valid() && images.shape().rank() == 4) {
    options.groups = images.shape().dim(1);
    options.channels = options.groups * multiplier;
  }
  return Conv2d(builder, images, options);
}

}  // namespace shoal
