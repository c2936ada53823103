// Layers, as functions on a GraphBuilder. Each function makes its variables (or finds them, if the
// variable scope reuses them), adds its nodes and returns its output. Names follow TF-Slim. Errors
// go to the builder's status.
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

// Applies the activation; returns x itself for kNone.
Output Activate(GraphBuilder& builder, Output x, Activation activation);

struct DenseOptions {
  int64_t units = 0;
  Activation activation = Activation::kNone;
  bool use_bias = true;
  bool scalar_bias = false;                                 // the bias is one number for all units
  std::optional<InitializerSpec> weights_initializer = {};  // default: Glorot uniform
  InitializerSpec bias_initializer = {};                    // zeros
  double weight_decay = 0;  // adds weight_decay * sum(w^2) / 2 to the regularization losses
  std::string scope = "";   // default: fully_connected, fully_connected_1, ...
  std::string weights_name = "weights";
  std::string bias_name = "biases";
};
// A fully connected layer: [batch, in] -> [batch, units], with weights [in, units]. An input of
// higher rank is flattened first.
Output Dense(GraphBuilder& builder, Output x, const DenseOptions& options);

// Flattens all dimensions except the batch: [batch, ...] -> [batch, n]. Returns a matrix unchanged.
Output Flatten(GraphBuilder& builder, Output x);

// Reshapes each example: [batch, ...] -> [batch, shape...]. One dimension of `shape` may be -1; it
// follows from the number of elements.
Output ReshapeExamples(GraphBuilder& builder, Output x, const std::vector<int64_t>& shape);

struct DropoutOptions {
  double rate = 0.5;  // the share of elements that become 0, in [0, 1)
  bool is_training = true;
  std::string scope = "";  // default: Dropout, Dropout_1, ...; decides the mask, so use it once
};
// In training, sets random elements to 0 and divides the others by 1 - rate; otherwise returns x
// itself. The mask of an example depends only on the run's seed, the epoch, the example and the
// scope. So it is the same for any number of clones, and when the batch is computed again.
Output Dropout(GraphBuilder& builder, Output x, const DropoutOptions& options);

struct EmbeddingOptions {
  int64_t rows = 0;                                 // the number of ids, which are in [0, rows)
  int64_t units = 0;                                // the length of each id's vector
  std::optional<InitializerSpec> initializer = {};  // default: uniform in [-0.05, 0.05)
  double weight_decay = 0;
  std::string scope = "";  // default: Embedding, Embedding_1, ...
};
// Looks up ids in the variable "embeddings" [rows, units]: [...] -> [..., units]. Ids given as
// floats are rounded towards zero. An id out of range gives NaN, so the loss becomes NaN.
Output Embedding(GraphBuilder& builder, Output ids, const EmbeddingOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYERS_H_
