// The models that runs name. Each takes [batch, ...] inputs and returns predictions.
#ifndef SHOAL_ML_NN_ZOO_H_
#define SHOAL_ML_NN_ZOO_H_

#include "ml/graph/graph_builder.h"

namespace shoal::zoo {

// Two 5x5 convolutions (32, 64 channels, SAME, ReLU), each with 2x2 max pooling, dense 512, dense
// `classes`. Scopes conv1, conv2, fc3, logits.
Output FashionCnn(GraphBuilder& builder, Output images, int64_t classes, double weight_decay);

// Dense 512 and 128 with ReLU, dense `classes`. Scopes fc1, fc2, logits.
Output Mlp(GraphBuilder& builder, Output x, int64_t classes, double weight_decay);

// 512-128-128-1 with one scalar bias per layer, ReLU between; weights truncated normal(0, 1), those
// of the last layer constant 1. Variables affine0/w, affine0/b, ..., affine_last/w, affine_last/b.
Output SeedMlp(GraphBuilder& builder, Output x, double weight_decay);

// One dense layer of `classes`. Scope logits.
Output SoftmaxRegression(GraphBuilder& builder, Output x, int64_t classes, double weight_decay);

// y = x w + b with one output, starting from zero. Scope linear.
Output Linear(GraphBuilder& builder, Output x, double weight_decay);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_H_
