#include "ml/nn/zoo.h"

#include "absl/strings/str_cat.h"

#include "ml/nn/convolution_layers.h"
#include "ml/nn/layers.h"
#include "ml/nn/pooling_layers.h"
#include "ml/nn/zoo_parts.h"

namespace shoal::zoo {
namespace {

Output ConvBlock(GraphBuilder& builder, Output images, absl::string_view scope, int64_t channels,
                 double weight_decay) {
  const ConvOptions options = ConvLayer(scope, channels, 5, Activation::kRelu, weight_decay);
  return MaxPool(builder, Conv2d(builder, images, options), {2});
}

Output Affine(GraphBuilder& builder, Output x, absl::string_view scope, int64_t units, bool is_last,
              double weight_decay) {
  DenseOptions options =
      DenseLayer(scope, units, is_last ? Activation::kNone : Activation::kRelu, weight_decay);
  options.scalar_bias = true;
  options.weights_initializer = is_last ? ConstantInitializer(1) : TruncatedNormalInitializer(0, 1);
  options.weights_name = "w";
  options.bias_name = "b";
  return Dense(builder, x, options);
}

}  // namespace

Output FashionCnn(GraphBuilder& builder, Output images, int64_t classes, double weight_decay) {
  Output net = ConvBlock(builder, images, "conv1", 32, weight_decay);
  net = ConvBlock(builder, net, "conv2", 64, weight_decay);
  net = Dense(builder, net, DenseLayer("fc3", 512, Activation::kRelu, weight_decay));
  return Dense(builder, net, DenseLayer("logits", classes, Activation::kNone, weight_decay));
}

Output LeNet5(GraphBuilder& builder, Output images, int64_t classes, double weight_decay) {
  PoolOptions pool;
  ConvOptions first = ConvLayer("conv1", 6, 5, Activation::kTanh, weight_decay);
  first.padding = Padding::Explicit(2);
  Output net = AveragePool(builder, Conv2d(builder, images, first), pool);
  ConvOptions second = ConvLayer("conv2", 16, 5, Activation::kTanh, weight_decay);
  second.padding = Padding::Valid();
  net = AveragePool(builder, Conv2d(builder, net, second), pool);
  net = Dense(builder, net, DenseLayer("fc3", 120, Activation::kTanh, weight_decay));
  net = Dense(builder, net, DenseLayer("fc4", 84, Activation::kTanh, weight_decay));
  return Dense(builder, net, DenseLayer("logits", classes, Activation::kNone, weight_decay));
}

Output Mlp(GraphBuilder& builder, Output x, int64_t classes, double weight_decay) {
  Output net = Dense(builder, x, DenseLayer("fc1", 512, Activation::kRelu, weight_decay));
  net = Dense(builder, net, DenseLayer("fc2", 128, Activation::kRelu, weight_decay));
  return Dense(builder, net, DenseLayer("logits", classes, Activation::kNone, weight_decay));
}

Output SeedMlp(GraphBuilder& builder, Output x, double weight_decay) {
  int layer = 0;
  for (int64_t units : {512, 128, 128}) {
    x = Affine(builder, x, absl::StrCat("affine", layer++), units, false, weight_decay);
  }
  return Affine(builder, x, "affine_last", 1, true, weight_decay);
}

Output SoftmaxRegression(GraphBuilder& builder, Output x, int64_t classes, double weight_decay) {
  return Dense(builder, x, DenseLayer("logits", classes, Activation::kNone, weight_decay));
}

Output Linear(GraphBuilder& builder, Output x, double weight_decay) {
  DenseOptions options = DenseLayer("linear", 1, Activation::kNone, weight_decay);
  options.weights_initializer = ZerosInitializer();
  return Dense(builder, x, options);
}

}  // namespace shoal::zoo
