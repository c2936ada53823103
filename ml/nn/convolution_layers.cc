#include "ml/nn/convolution_layers.h"

#include <algorithm>
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

// Returns the padding of the convolution from y to x with which the size of y along an axis is
// stride times that of x.
struct SameTransposed {
  SameTransposed(int64_t kernel, int64_t stride, int64_t dilation) {
    const int64_t reach = (kernel - 1) * dilation + 1;
    const int64_t pads = std::max<int64_t>(0, reach - stride);
    before = pads / 2;
    after = pads - pads / 2;
    extra = std::max<int64_t>(0, stride - reach);
  }
  int64_t before, after, extra;
};

bool TransposedAttributes(GraphBuilder& builder, Output images, const ConvOptions& options,
                          Attributes* attributes) {
  Window window{options.kernel, options.stride, options.dilation, options.padding};
  const bool is_same = options.padding.kind == PaddingKind::kSame;
  if (is_same) window.padding = Padding::Valid();
  if (!MakeWindowAttributes(builder, images, window, attributes)) return false;
  if (!is_same) return true;
  const SameTransposed rows(options.kernel.height, options.stride.height, options.dilation.height);
  const SameTransposed columns(options.kernel.width, options.stride.width, options.dilation.width);
  attributes->Set("pads",
                  std::vector<int64_t>{rows.before, columns.before, rows.after, columns.after});
  attributes->Set("output_padding", std::vector<int64_t>{rows.extra, columns.extra});
  return true;
}

}  // namespace

Output ConvTranspose2d(GraphBuilder& builder, Output images, const ConvOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "Conv_transpose");
  if (!CheckInput(builder, images, 4, 4, kImages)) return {};
  if (!CheckChannels(builder, images, options)) return {};
  Attributes attributes{{"group", options.groups}};
  if (!TransposedAttributes(builder, images, options, &attributes)) return {};
  const Shape shape({images.shape().dim(1), options.channels / options.groups,
                     options.kernel.height, options.kernel.width});
  std::vector<Output> inputs = {images, MakeWeights(builder, shape, images.dtype(), options)};
  if (options.use_bias) {
    inputs.push_back(MakeParameter(builder, "biases", {images.dtype(), Shape({options.channels})},
                                   options.bias_initializer));
  }
  return Activate(builder, builder.Op("ConvTranspose", std::move(inputs), std::move(attributes)),
                  options.activation);
}

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
