// A model that consists of ResNet-50 without its last layer, dropout, and a new last layer, for
// images of any number of classes.
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/zoo.h"
#include "worker/main.h"

namespace {

using shoal::GraphBuilder;
using shoal::Output;

shoal::ModelOutputs ResNetWithHead(GraphBuilder& builder, absl::Span<const Output> batch,
                                   bool is_training, int64_t classes) {
  shoal::zoo::ModelOptions backbone;
  backbone.is_training = is_training;
  Output net = shoal::zoo::BuildFeatures(builder, "resnet50", batch[0], backbone);

  shoal::DenseOptions hidden;
  hidden.scope = "head/hidden";
  hidden.units = 128;
  hidden.activation = shoal::Activation::kRelu;
  net = shoal::Dense(builder, net, hidden);
  shoal::DropoutOptions dropout;
  dropout.rate = 0.3;
  dropout.is_training = is_training;
  net = shoal::Dropout(builder, net, dropout);
  shoal::DenseOptions last;
  last.scope = "head/logits";
  last.units = classes;

  shoal::ModelOutputs outputs;
  outputs.predictions = shoal::Dense(builder, net, last);
  outputs.loss = shoal::AddLoss(builder, shoal::LossKind::kSparseSoftmaxCrossEntropy,
                                outputs.predictions, batch[1]);
  outputs.correct_count = shoal::CorrectCount(builder, outputs.predictions, batch[1]);
  return outputs;
}

// The number of classes is known when the run's data have been opened.
absl::StatusOr<shoal::ModelFunction> MakeModel(const shoal::v1::RunConfig& /*run*/,
                                               const std::vector<shoal::FieldSpec>& fields,
                                               int64_t classes) {
  if (fields.size() != 2 || fields[0].example.shape.rank() != 3) {
    return absl::InvalidArgumentError("resnet_with_head: the data must be images and labels");
  }
  return [classes](GraphBuilder& builder, absl::Span<const Output> batch, bool is_training) {
    return ResNetWithHead(builder, batch, is_training, classes);
  };
}

}  // namespace

int main(int argc, char** argv) { return shoal::worker::Main(argc, argv, &MakeModel); }
