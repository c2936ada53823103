// An example of a program with its own model, which a user writes, builds and passes to
//
//   shoal train --worker_binary=bazel-bin/tests/examples/two_scale_network
//
// The network sees an image in two scales: a convolution of its pixels, and a dense layer on means
// of 4 x 4 pixels. Its output depends on both. A run file cannot express two parts of it: a second
// loss, with the weight 0.3, for the coarse half alone; and a trained variable that scales the
// logits.
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/graph/graph.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"
#include "ml/graph/variable_spec.h"
#include "ml/nn/convolution_layers.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "ml/nn/pooling_layers.h"
#include "ml/tensor/initializer.h"
#include "worker/main.h"

namespace {

using shoal::GraphBuilder;
using shoal::Output;

constexpr double kCoarseWeight = 0.3;

Output DenseRelu(GraphBuilder& builder, Output x, int64_t units) {
  shoal::DenseOptions options;
  options.units = units;
  options.activation = shoal::Activation::kRelu;
  return shoal::Dense(builder, x, options);
}

Output Logits(GraphBuilder& builder, Output x, int64_t classes) {
  shoal::DenseOptions options;
  options.units = classes;
  return shoal::Dense(builder, x, options);
}

// The first part of the network, which sees all pixels. Returns [batch, features].
Output Fine(GraphBuilder& builder, Output images) {
  const auto scope = builder.WithVariableScope("fine");
  shoal::ConvOptions convolution;
  convolution.channels = 8;
  convolution.kernel = 5;
  convolution.stride = 2;
  convolution.activation = shoal::Activation::kRelu;
  const Output net = shoal::Conv2d(builder, images, convolution);
  shoal::PoolOptions pool;
  pool.kernel = 2;
  return shoal::Flatten(builder, shoal::MaxPool(builder, net, pool));
}

// The second part of the network, which sees the coarse image.
Output Coarse(GraphBuilder& builder, Output images) {
  const auto scope = builder.WithVariableScope("coarse");
  shoal::PoolOptions pool;
  pool.kernel = 4;
  return DenseRelu(builder, shoal::AveragePool(builder, images, pool), 32);
}

// A loss in addition to the main one. The total loss is the sum of all losses in the collection.
void AddCoarseLoss(GraphBuilder& builder, Output coarse, Output labels, int64_t classes) {
  const auto scope = builder.WithVariableScope("coarse_decision");
  const Output logits = Logits(builder, coarse, classes);
  const Output losses = builder.Op("SparseSoftmaxCrossEntropy", {logits, labels});
  const Output loss = shoal::ops::Scale(builder, shoal::ops::ReduceMean(builder, losses),
                                        kCoarseWeight, "coarse_loss");
  builder.AddToCollection(shoal::kLosses, loss);
  builder.AddToCollection(shoal::kSummaries, loss);
}

// A scalar variable, initially 1, by which the logits are multiplied.
Output Sharpened(GraphBuilder& builder, Output logits) {
  shoal::VariableSpec spec;
  spec.name = "sharpness";
  spec.initializer = shoal::ConstantInitializer(1);
  const Output sharpness = builder.GetVariable(spec);
  builder.AddToCollection(shoal::kSummaries, sharpness);
  return shoal::ops::Mul(builder, logits, sharpness);
}

shoal::ModelOutputs TwoScaleNetwork(GraphBuilder& builder, absl::Span<const Output> batch,
                                    bool is_training, int64_t classes) {
  const Output images = batch[0];  // [batch, channels, height, width]
  const Output labels = batch[1];  // [batch], class numbers
  const Output coarse = Coarse(builder, images);
  Output both = shoal::ops::Concat(builder, {Fine(builder, images), coarse}, 1);
  builder.AddToCollection(shoal::kSummaries, both);  // not a scalar: a histogram
  shoal::DropoutOptions dropout;
  dropout.rate = 0.2;
  dropout.is_training = is_training;
  both = shoal::Dropout(builder, both, dropout);

  shoal::ModelOutputs outputs;
  outputs.predictions = Sharpened(builder, Logits(builder, both, classes));
  outputs.loss = shoal::AddLoss(builder, shoal::LossKind::kSparseSoftmaxCrossEntropy,
                                outputs.predictions, labels);
  AddCoarseLoss(builder, coarse, labels, classes);
  outputs.correct_count = shoal::CorrectCount(builder, outputs.predictions, labels);
  return outputs;
}

// Makes the model for the run's data set, which determines the number of classes.
absl::StatusOr<shoal::ModelFunction> MakeModel(const shoal::v1::RunConfig& /*run*/,
                                               const std::vector<shoal::FieldSpec>& fields,
                                               int64_t classes) {
  if (fields.size() != 2 || fields[0].example.shape.rank() != 3) {
    return absl::InvalidArgumentError(
        "two_scale_network: wants images and labels; name such a data set with --data_dir");
  }
  return [classes](GraphBuilder& builder, absl::Span<const Output> batch, bool is_training) {
    return TwoScaleNetwork(builder, batch, is_training, classes);
  };
}

}  // namespace

int main(int argc, char** argv) { return shoal::worker::Main(argc, argv, &MakeModel); }
