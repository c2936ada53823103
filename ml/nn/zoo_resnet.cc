// ResNet: He et al. 2015, in the form of torchvision (stride in the 3x3 convolution).
#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"
#include "ml/nn/layers.h"
#include "ml/nn/pooling_layers.h"
#include "ml/nn/zoo.h"
#include "ml/nn/zoo_parts.h"

namespace shoal::zoo {
namespace {

ConvNormOptions Unit(int64_t channels, int64_t kernel, int64_t stride, Activation activation) {
  ConvNormOptions options;
  options.convolution.channels = channels;
  options.convolution.kernel = kernel;
  options.convolution.stride = stride;
  options.convolution.padding = Padding::Explicit((kernel - 1) / 2);
  options.activation = activation;
  options.norm.epsilon = 1e-5;
  options.norm.decay = 0.9;
  return options;
}

// The input, through a 1x1 convolution where the shape changes.
Output Shortcut(GraphBuilder& builder, Output input, int64_t channels, int64_t stride,
                const ModelOptions& model) {
  if (stride == 1 && input.shape().dim(1) == channels) return input;
  return ConvNorm(builder, input, "shortcut", Unit(channels, 1, stride, Activation::kNone), model);
}

// Two 3x3 convolutions.
Output BasicBlock(GraphBuilder& builder, Output input, int64_t channels, int64_t stride,
                  const ModelOptions& model) {
  if (!input.valid()) return {};
  Output net =
      ConvNorm(builder, input, "conv1", Unit(channels, 3, stride, Activation::kRelu), model);
  net = ConvNorm(builder, net, "conv2", Unit(channels, 3, 1, Activation::kNone), model);
  net = ops::Add(builder, net, Shortcut(builder, input, channels, stride, model));
  return Activate(builder, net, Activation::kRelu);
}

// 1x1 to `channels`, 3x3, 1x1 to four times as many.
Output Bottleneck(GraphBuilder& builder, Output input, int64_t channels, int64_t stride,
                  const ModelOptions& model) {
  if (!input.valid()) return {};
  Output net = ConvNorm(builder, input, "conv1", Unit(channels, 1, 1, Activation::kRelu), model);
  net = ConvNorm(builder, net, "conv2", Unit(channels, 3, stride, Activation::kRelu), model);
  net = ConvNorm(builder, net, "conv3", Unit(4 * channels, 1, 1, Activation::kNone), model);
  net = ops::Add(builder, net, Shortcut(builder, input, 4 * channels, stride, model));
  return Activate(builder, net, Activation::kRelu);
}

using Block = Output (*)(GraphBuilder&, Output, int64_t, int64_t, const ModelOptions&);

Output Features(GraphBuilder& builder, Output images, Block block, const int (&repeats)[4],
                const ModelOptions& model) {
  Output net = ConvNorm(builder, images, "conv1", Unit(64, 7, 2, Activation::kRelu), model);
  PoolOptions pool;
  pool.kernel = 3;
  pool.stride = 2;
  pool.padding = Padding::Explicit(1);
  net = MaxPool(builder, net, pool);
  for (int stage = 0; stage < 4; ++stage) {
    for (int i = 0; i < repeats[stage]; ++i) {
      const auto scope = builder.WithVariableScope(absl::StrCat("layer", stage + 1, "_", i));
      net = block(builder, net, int64_t{64} << stage, stage > 0 && i == 0 ? 2 : 1, model);
    }
  }
  return GlobalAveragePool(builder, net);
}

Output Classifier(GraphBuilder& builder, Output features, const ModelOptions& model) {
  DenseOptions last;
  last.scope = "fc";
  last.units = model.classes;
  last.weight_decay = model.weight_decay;
  return Dense(builder, features, last);
}

}  // namespace

Output ResNet18Features(GraphBuilder& builder, Output images, const ModelOptions& model) {
  return Features(builder, images, BasicBlock, {2, 2, 2, 2}, model);
}

Output ResNet50Features(GraphBuilder& builder, Output images, const ModelOptions& model) {
  return Features(builder, images, Bottleneck, {3, 4, 6, 3}, model);
}

Output ResNet18(GraphBuilder& builder, Output images, const ModelOptions& model) {
  return Classifier(builder, ResNet18Features(builder, images, model), model);
}

Output ResNet50(GraphBuilder& builder, Output images, const ModelOptions& model) {
  return Classifier(builder, ResNet50Features(builder, images, model), model);
}

}  // namespace shoal::zoo
