// Layers as functions on a GraphBuilder: each makes its variables (or finds them, if the scope
// reuses) and adds its nodes. Names follow TF-Slim. Errors are the builder's.
//
//   net = Dense(builder, x, {.units = 512, .activation = Activation::kRelu});
//
// Layers of images are in convolution_layers.h, pooling_layers.h and normalization_layers.h.
#ifndef SHOAL_ML_NN_LAYERS_H_
#define SHOAL_ML_NN_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ml/graph/graph_builder.h"
#include "ml/tensor/initializer.h"

namespace shoal {

enum class Activation {
  kNone,
  kRelu,
  kRelu6,      // min(max(x, 0), 6)
  kLeakyRelu,  // slope 0.01 below 0
  kElu,        // exp(x) - 1 below 0
  kGelu,       // in its exact form
  kSilu,
  kSigmoid,
  kSoftmax,  // over the last axis
  kSoftplus,
  kTanh,
};

// x itself for kNone.
Output Activate(GraphBuilder& builder, Output x, Activation activation);

struct DenseOptions {
  int64_t units = 0;
  Activation activation = Activation::kNone;
  bool use_bias = true;
  bool scalar_bias = false;                                 // one number for all units
  std::optional<InitializerSpec> weights_initializer = {};  // default: Glorot uniform
  InitializerSpec bias_initializer = {};                    // zeros
  double weight_decay = 0;  // adds weight_decay * sum(w^2) / 2 to the regularization losses
  std::string scope = "";   // default: fully_connected, fully_connected_1, ...
  std::string weights_name = "weights";
  std::string bias_name = "biases";
};
// [batch, in] -> [batch, units]; images are flattened first. Weights [in, units].
Output Dense(GraphBuilder& builder, Output x, const DenseOptions& options);

// [batch, ...] -> [batch, product of the others]; a matrix stays as it is.
Output Flatten(GraphBuilder& builder, Output x);

// [batch, ...] -> [batch, shape]; one dimension may be -1, for what is left.
Output ReshapeExamples(GraphBuilder& builder, Output x, const std::vector<int64_t>& shape);

struct DropoutOptions {
  double rate = 0.5;  // the share of elements that become 0, in [0, 1)
  bool is_training = true;
  std::string scope = "";  // default: Dropout, Dropout_1, ...; decides the mask, so use it once
};
// In training x with some elements 0 and the others divided by 1 - rate, else x itself. The mask of
// an example follows from the run's seed, the epoch, the example and the scope: it is the same on
// any number of clones, and when the batch is computed again.
Output Dropout(GraphBuilder& builder, Output x, const DropoutOptions& options);

struct EmbeddingOptions {
  int64_t rows = 0;                                 // how many different ids
  int64_t units = 0;                                // numbers for each
  std::optional<InitializerSpec> initializer = {};  // default: uniform in [-0.05, 0.05)
  double weight_decay = 0;
  std::string scope = "";  // default: Embedding, Embedding_1, ...
};
// Ids [...] -> [..., units]: rows of the variable "embeddings" [rows, units]. Ids in floats are
// rounded towards zero. An id out of range gives NaN, and therefore a loss that is not a number.
Output Embedding(GraphBuilder& builder, Output ids, const EmbeddingOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYERS_H_
