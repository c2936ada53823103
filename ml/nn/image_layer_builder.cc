#include "ml/nn/image_layer_builder.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/nn/convolution_layers.h"
#include "ml/nn/layer_initializer.h"
#include "ml/nn/normalization_layers.h"
#include "ml/nn/pooling_layers.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

using Numbers = google::protobuf::RepeatedField<uint32_t>;

void Fail(const LayerContext& context, absl::string_view message) {
  context.builder.SetError(
      absl::InvalidArgumentError(absl::StrCat("'", context.name, "': ", message)));
}

// Returns height and width from a field of one or two numbers; `empty` if it has none.
bool ReadSize(const LayerContext& context, const char* field, const Numbers& numbers, int64_t empty,
              Size2* size) {
  if (numbers.size() > 2) {
    Fail(context, absl::StrCat(field, " takes height and width, or one number for both"));
    return false;
  }
  *size = numbers.empty() ? Size2(empty) : Size2(numbers[0], numbers[numbers.size() - 1]);
  return true;
}

bool ReadPadding(const LayerContext& context, const Numbers& numbers, bool is_same,
                 Padding* padding) {
  *padding = is_same ? Padding::Same() : Padding::Valid();
  switch (numbers.size()) {
    case 0:
      return true;
    case 1:
      *padding = Padding::Explicit(numbers[0]);
      return true;
    case 2:
      *padding = {PaddingKind::kExplicit, numbers[0], numbers[1], numbers[0], numbers[1]};
      return true;
    case 4:
      *padding = {PaddingKind::kExplicit, numbers[0], numbers[1], numbers[2], numbers[3]};
      return true;
    default:
      Fail(context, "padding takes top, left, bottom and right; vertical and horizontal; or one");
      return false;
  }
}

// Sets the options for the fields that both kinds of convolution have.
template <typename Layer>
bool ReadConvolution(const Layer& layer, Activation activation, const LayerContext& context,
                     ConvOptions* options) {
  options->scope = context.name;
  options->channels = layer.channels();
  options->activation = activation;
  options->use_bias = !layer.no_bias();
  options->groups = layer.groups() == 0 ? 1 : layer.groups();
  options->weight_decay = context.weight_decay;
  return ReadSize(context, "kernel", layer.kernel(), 0, &options->kernel) &&
         ReadSize(context, "stride", layer.stride(), 1, &options->stride) &&
         ReadSize(context, "dilation", layer.dilation(), 1, &options->dilation) &&
         ReadPadding(context, layer.padding(), !layer.valid_padding(), &options->padding);
}

// Weights are [in or out, out or in per group, height, width].
bool ReadConvInitializers(const LayerContext& context, int64_t first, int64_t second,
                          ConvOptions* options) {
  const Shape weights({first, second, options->kernel.height, options->kernel.width});
  return ReadInitializers(context.builder, context.name, context.layer, weights,
                          &options->weights_initializer, &options->bias_initializer);
}

int64_t ChannelsOf(Output images) { return images.shape().rank() == 4 ? images.shape().dim(1) : 1; }

}  // namespace

Output BuildTransposedConvolutionLayer(const v1::TransposedConvolutionLayer& layer,
                                       Activation activation, const LayerContext& context,
                                       Output input) {
  ConvOptions options;
  if (!ReadConvolution(layer, activation, context, &options)) return {};
  if (!ReadConvInitializers(context, ChannelsOf(input), options.channels / options.groups,
                            &options)) {
    return {};
  }
  return ConvTranspose2d(context.builder, input, options);
}

Output BuildLayerNormLayer(const v1::LayerNormLayer& layer, const LayerContext& context,
                           Output input) {
  LayerNormOptions options;
  options.scope = context.name;
  options.use_scale = !layer.no_scale();
  options.use_offset = !layer.no_offset();
  if (layer.has_epsilon()) options.epsilon = layer.epsilon();
  if (layer.has_axis()) options.axis = layer.axis();
  if (!(options.epsilon > 0)) {
    Fail(context, "layer_norm needs a positive epsilon");
    return {};
  }
  return LayerNorm(context.builder, input, options);
}

Output BuildLocalResponseNormLayer(const v1::LocalResponseNormLayer& layer,
                                   const LayerContext& context, Output input) {
  LocalResponseNormOptions options;
  if (layer.has_depth_radius()) options.depth_radius = layer.depth_radius();
  if (layer.has_bias()) options.bias = layer.bias();
  if (layer.has_alpha()) options.alpha = layer.alpha();
  if (layer.has_beta()) options.beta = layer.beta();
  if (!(options.bias > 0 && options.alpha >= 0 && options.beta >= 0)) {
    Fail(context, "local_response_norm needs a positive bias, and alpha and beta of at least 0");
    return {};
  }
  return LocalResponseNorm(context.builder, input, options);
}

Output BuildConvolutionLayer(const v1::ConvolutionLayer& layer, Activation activation,
                             const LayerContext& context, Output input) {
  ConvOptions options;
  if (!ReadConvolution(layer, activation, context, &options)) return {};
  const int64_t channels = ChannelsOf(input);
  if (!layer.depthwise()) {
    return ReadConvInitializers(context, options.channels, channels / options.groups, &options)
               ? Conv2d(context.builder, input, options)
               : Output();
  }
  if (layer.groups() != 0 || layer.channels() % channels != 0) {
    Fail(context, absl::StrCat("depthwise takes no groups, and a multiple of the ", channels,
                               " input channels as channels"));
    return {};
  }
  const int64_t multiplier = layer.channels() == 0 ? 1 : layer.channels() / channels;
  if (!ReadConvInitializers(context, channels * multiplier, 1, &options)) return {};
  return DepthwiseConv2d(context.builder, input, options, multiplier);
}

Output BuildPoolLayer(const v1::PoolLayer& layer, const LayerContext& context, Output input) {
  GraphBuilder& builder = context.builder;
  if (layer.global()) {
    if (!layer.kernel().empty() || !layer.stride().empty() || !layer.padding().empty()) {
      Fail(context, "a global pool takes no kernel, stride or padding");
      return {};
    }
    return layer.average() ? GlobalAveragePool(builder, input) : GlobalMaxPool(builder, input);
  }
  PoolOptions options;
  if (!ReadSize(context, "kernel", layer.kernel(), 0, &options.kernel) ||
      !ReadSize(context, "stride", layer.stride(), 0, &options.stride) ||
      !ReadPadding(context, layer.padding(), layer.same_padding(), &options.padding)) {
    return {};
  }
  return layer.average() ? AveragePool(builder, input, options) : MaxPool(builder, input, options);
}

Output BuildBatchNormLayer(const v1::BatchNormLayer& layer, Activation activation,
                           const LayerContext& context, Output input) {
  BatchNormOptions options;
  options.scope = context.name;
  options.is_training = context.is_training;
  options.use_scale = !layer.no_scale();
  options.use_offset = !layer.no_offset();
  options.sync_clones = layer.sync_clones();
  if (layer.has_decay()) options.decay = layer.decay();
  if (layer.has_epsilon()) options.epsilon = layer.epsilon();
  if (!(options.decay >= 0 && options.decay <= 1) || !(options.epsilon > 0)) {
    Fail(context, "batch_norm needs a decay in [0, 1] and a positive epsilon");
    return {};
  }
  return Activate(context.builder, BatchNorm(context.builder, input, options), activation);
}

}  // namespace shoal
