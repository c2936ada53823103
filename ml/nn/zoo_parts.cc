#include "ml/nn/zoo_parts.h"

#include <string>

#include "ml/nn/layers.h"

namespace shoal::zoo {

DenseOptions DenseLayer(absl::string_view scope, int64_t units, Activation activation,
                        double weight_decay) {
  DenseOptions options;
  options.scope = std::string(scope);
  options.units = units;
  options.activation = activation;
  options.weight_decay = weight_decay;
  return options;
}

ConvOptions ConvLayer(absl::string_view scope, int64_t channels, const Size2& kernel,
                      Activation activation, double weight_decay) {
  ConvOptions options;
  options.scope = std::string(scope);
  options.channels = channels;
  options.kernel = kernel;
  options.activation = activation;
  options.weight_decay = weight_decay;
  return options;
}

Output ConvNorm(GraphBuilder& builder, Output images, absl::string_view scope,
                ConvNormOptions options, const ModelOptions& model) {
  ConvOptions& convolution = options.convolution;
  convolution.scope = std::string(scope);
  convolution.use_bias = false;
  convolution.weight_decay = model.weight_decay;
  // Initialized for the activation behind the batch norm.
  if (options.activation != Activation::kNone && images.valid() && images.shape().rank() == 4) {
    const int64_t in = options.is_depthwise ? 1 : images.shape().dim(1) / convolution.groups;
    const Size2& kernel = convolution.kernel;
    convolution.weights_initializer =
        HeNormalInitializer({static_cast<double>(in * kernel.height * kernel.width), 1});
  }
  const Output net = options.is_depthwise ? DepthwiseConv2d(builder, images, convolution)
                                          : Conv2d(builder, images, convolution);
  const auto variables = builder.WithVariableScope(scope);
  options.norm.scope = "BatchNorm";
  options.norm.is_training = model.is_training;
  return Activate(builder, BatchNorm(builder, net, options.norm), options.activation);
}

}  // namespace shoal::zoo
