// models/tutorials/image/cifar10/cifar10.py of TensorFlow 1.
#include "ml/nn/layers.h"
#include "ml/nn/pooling_layers.h"
#include "ml/nn/zoo.h"
#include "ml/nn/zoo_parts.h"

namespace shoal::zoo {
namespace {

Output Convolution(GraphBuilder& builder, Output images, const char* scope, double bias,
                   const ModelOptions& model) {
  ConvOptions options = ConvLayer(scope, 64, 5, Activation::kRelu, model.weight_decay);
  options.weights_initializer = TruncatedNormalInitializer(0, 0.05);
  if (bias != 0) options.bias_initializer = ConstantInitializer(bias);
  return Conv2d(builder, images, options);
}

Output Local(GraphBuilder& builder, Output x, const char* scope, int64_t units) {
  DenseOptions options = DenseLayer(scope, units, Activation::kRelu, /*weight_decay=*/0.004);
  options.weights_initializer = TruncatedNormalInitializer(0, 0.04);
  options.bias_initializer = ConstantInitializer(0.1);
  return Dense(builder, x, options);
}

}  // namespace

Output Cifar10Cnn(GraphBuilder& builder, Output images, const ModelOptions& model) {
  LocalResponseNormOptions norm;
  norm.depth_radius = 4;
  norm.alpha = 0.001 / 9;
  norm.beta = 0.75;
  PoolOptions pool;
  pool.kernel = 3;
  pool.stride = 2;
  pool.padding = Padding::Same();
  Output net = MaxPool(builder, Convolution(builder, images, "conv1", 0, model), pool);
  net = Convolution(builder, LocalResponseNorm(builder, net, norm), "conv2", 0.1, model);
  net = MaxPool(builder, LocalResponseNorm(builder, net, norm), pool);
  net = Local(builder, net, "local3", 384);
  net = Local(builder, net, "local4", 192);
  DenseOptions last =
      DenseLayer("softmax_linear", model.classes, Activation::kNone, model.weight_decay);
  last.weights_initializer = TruncatedNormalInitializer(0, 1 / 192.0);
  return Dense(builder, net, last);
}

}  // namespace shoal::zoo
