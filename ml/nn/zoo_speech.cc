// Keyword spotting: convolutions over time (rows) and frequency (columns).
#include "ml/nn/layers.h"
#include "ml/nn/pooling_layers.h"
#include "ml/nn/zoo.h"
#include "ml/nn/zoo_parts.h"

namespace shoal::zoo {
namespace {

// tensorflow/examples/speech_commands/models.py: SAME, small normal weights, dropout.
Output SpeechUnit(GraphBuilder& builder, Output net, const char* scope, const Size2& kernel,
                  const char* dropout_scope, const ModelOptions& model) {
  ConvOptions options = ConvLayer(scope, 64, kernel, Activation::kRelu, model.weight_decay);
  options.weights_initializer = TruncatedNormalInitializer(0, 0.01);
  DropoutOptions dropout;
  dropout.scope = dropout_scope;
  dropout.rate = model.dropout_rate;
  dropout.is_training = model.is_training;
  return Dropout(builder, Conv2d(builder, net, options), dropout);
}

}  // namespace

Output SpeechConv(GraphBuilder& builder, Output spectrograms, const ModelOptions& model) {
  Output net = SpeechUnit(builder, spectrograms, "conv1", {20, 8}, "dropout1", model);
  PoolOptions pool;
  pool.padding = Padding::Same();
  net = SpeechUnit(builder, MaxPool(builder, net, pool), "conv2", {10, 4}, "dropout2", model);
  DenseOptions last = DenseLayer("logits", model.classes, Activation::kNone, model.weight_decay);
  last.weights_initializer = TruncatedNormalInitializer(0, 0.01);
  return Dense(builder, net, last);
}

Output CnnTradFpool3(GraphBuilder& builder, Output spectrograms, const ModelOptions& model) {
  const double decay = model.weight_decay;
  ConvOptions first = ConvLayer("conv1", 64, {20, 8}, Activation::kRelu, decay);
  first.padding = Padding::Valid();
  PoolOptions pool;
  pool.kernel = {1, 3};
  Output net = MaxPool(builder, Conv2d(builder, spectrograms, first), pool);
  ConvOptions second = ConvLayer("conv2", 64, {10, 4}, Activation::kRelu, decay);
  second.padding = Padding::Valid();
  net = Conv2d(builder, net, second);
  net = Dense(builder, net, DenseLayer("linear", 32, Activation::kNone, decay));
  net = Dense(builder, net, DenseLayer("dnn", 128, Activation::kRelu, decay));
  return Dense(builder, net, DenseLayer("logits", model.classes, Activation::kNone, decay));
}

}  // namespace shoal::zoo
