// The models that runs name. Each takes [batch, ...] inputs and returns predictions.
#ifndef SHOAL_ML_NN_ZOO_H_
#define SHOAL_ML_NN_ZOO_H_

#include "ml/graph/graph_builder.h"

namespace shoal::zoo {

// Two 5x5 convolutions (32, 64 channels, SAME, ReLU), each with 2x2 max pooling, dense 512, dense
// `classes`: the LeNet of TensorFlow's MNIST tutorial. Scopes conv1, conv2, fc3, logits.
Output FashionCnn(GraphBuilder& builder, Output images, int64_t classes, double weight_decay);

// LeCun et al. 1998 for 28x28 images, all maps connected: 5x5 convolutions of 6 and 16 channels,
// each with 2x2 average pooling, dense 120, 84, `classes`, tanh between. Scopes conv1, conv2, fc3,
// fc4, logits.
Output LeNet5(GraphBuilder& builder, Output images, int64_t classes, double weight_decay);

// Dense 512 and 128 with ReLU, dense `classes`. Scopes fc1, fc2, logits.
Output Mlp(GraphBuilder& builder, Output x, int64_t classes, double weight_decay);

// 512-128-128-1 with one scalar bias per layer, ReLU between; weights truncated normal(0, 1), those
// of the last layer constant 1. Variables affine0/w, affine0/b, ..., affine_last/w, affine_last/b.
Output SeedMlp(GraphBuilder& builder, Output x, double weight_decay);

// One dense layer of `classes`. Scope logits.
Output SoftmaxRegression(GraphBuilder& builder, Output x, int64_t classes, double weight_decay);

// y = x w + b with one output, starting from zero. Scope linear.
Output Linear(GraphBuilder& builder, Output x, double weight_decay);

// The arguments of the convolutional models below.
struct ModelOptions {
  int64_t classes = 1000;
  double weight_decay = 0;
  bool is_training = true;
  double width_multiplier = 1;  // MobileNetV2: of all channels
  double dropout_rate = 0.5;    // used where the model has dropout
};

// TensorFlow's CIFAR-10 tutorial, with its initializers, local response norm and a weight decay of
// 0.004 on its two local layers; model.weight_decay is that of the others. Its images are crops of
// 24x24. Scopes conv1, conv2, local3, local4, softmax_linear.
Output Cifar10Cnn(GraphBuilder& builder, Output images, const ModelOptions& model);

// Simonyan and Zisserman 2014, configuration D; 138,357,544 parameters for 224x224 images of 3
// channels and 1000 classes. Dropout behind fc6 and fc7. Scopes conv1_1, ..., conv5_3, fc6, fc7,
// fc8.
Output Vgg16(GraphBuilder& builder, Output images, const ModelOptions& model);

// Keyword spotting over spectrograms [1, frames, features]. SpeechConv: the "conv" of TensorFlow's
// speech_commands (98x40), with dropout. CnnTradFpool3: Sainath and Parada 2015, table 1 (32x40).
// Scopes conv1, conv2, (linear, dnn,) logits.
Output SpeechConv(GraphBuilder& builder, Output spectrograms, const ModelOptions& model);
Output CnnTradFpool3(GraphBuilder& builder, Output spectrograms, const ModelOptions& model);

// MobileNetV2 on images of any size and number of channels; 3,504,872 parameters for 3 channels and
// 1000 classes. Scopes Conv, expanded_conv, expanded_conv_1, ..., Conv_1, Logits.
Output MobileNetV2(GraphBuilder& builder, Output images, const ModelOptions& model);
// A variant with another top: 2x2 average pool, dense 512 without activation, dense `classes`.
Output MobileNetV2Dense(GraphBuilder& builder, Output images, const ModelOptions& model);

// 11,689,512 and 25,557,032 parameters for 3 channels and 1000 classes. Scopes conv1, layer1_0,
// ..., layer4_1, fc.
Output ResNet18(GraphBuilder& builder, Output images, const ModelOptions& model);
Output ResNet50(GraphBuilder& builder, Output images, const ModelOptions& model);

// The same networks without their last layer, for a head of one's own: images to features [batch,
// 512] (ResNet18), [batch, 2048] (ResNet50), [batch, 1280] (MobileNetV2; more with a
// width_multiplier above 1). Their variables have the names that they have in the whole networks.
Output ResNet18Features(GraphBuilder& builder, Output images, const ModelOptions& model);
Output ResNet50Features(GraphBuilder& builder, Output images, const ModelOptions& model);
Output MobileNetV2Features(GraphBuilder& builder, Output images, const ModelOptions& model);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_H_
