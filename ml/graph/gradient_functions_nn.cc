#include "absl/strings/str_cat.h"

#include "ml/graph/gradient_functions.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"

namespace shoal::gradients {
namespace {

// The gradients of activations are computed from their outputs.
Output FromOutput(const GradientRequest& r, absl::string_view op) {
  return r.builder.Op(op, {r.y(0), r.output_gradients[0]}, r.node.attributes);
}

}  // namespace

void Relu(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = FromOutput(r, "ReluGrad");
}

void Sigmoid(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = FromOutput(r, "SigmoidGrad");
}

void Tanh(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = FromOutput(r, "TanhGrad");
}

void Softmax(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = FromOutput(r, "SoftmaxGrad");
}

void LogSoftmax(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = FromOutput(r, "LogSoftmaxGrad");
}

void Conv(const GradientRequest& r, std::vector<Output>* dx) {
  const Node* gradient = r.builder.AddNode(
      "ConvGrad", {r.x(0), r.x(1), r.y(0), r.output_gradients[0]}, r.node.attributes);
  for (size_t i = 0; i < dx->size(); ++i) (*dx)[i] = Output{gradient, static_cast<int>(i)};
}

// The convolution from y to x: its output is dx, and its weights have x for the gradient of the
// output.
void ConvTranspose(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  Attributes attributes = r.node.attributes;
  attributes.Erase("output_padding");
  (*dx)[0] = r.builder.Op("Conv", {dy, r.x(1)}, attributes);
  const Node* gradient = r.builder.AddNode("ConvGrad", {dy, r.x(1), r.x(0), r.x(0)}, attributes);
  (*dx)[1] = Output{gradient, 1};
  if (dx->size() == 3) (*dx)[2] = ops::ReduceSum(r.builder, dy, {0, 2, 3});
}

void LayerNorm(const GradientRequest& r, std::vector<Output>* dx) {
  if (!r.output_gradients[0].valid()) return;
  const Node* gradient = r.builder.AddNode(
      "LayerNormGrad", {r.x(0), r.x(1), r.y(1), r.y(2), r.output_gradients[0]}, r.node.attributes);
  for (int i = 0; i < 3; ++i) (*dx)[i] = Output{gradient, i};
}

void LocalResponseNorm(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("LocalResponseNormGrad", {r.x(0), r.y(0), r.output_gradients[0]},
                          r.node.attributes);
}

// Uses the index of each window's winner; of x only the shape.
void MaxPool(const GradientRequest& r, std::vector<Output>* dx) {
  if (!r.output_gradients[0].valid()) return;
  (*dx)[0] =
      r.builder.Op("MaxPoolGrad", {r.y(1), r.output_gradients[0], r.x(0)}, r.node.attributes);
}

void AveragePool(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("AveragePoolGrad", {r.output_gradients[0], r.x(0)}, r.node.attributes);
}

void GlobalAveragePool(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("GlobalAveragePoolGrad", {r.output_gradients[0], r.x(0)});
}

void GlobalMaxPool(const GradientRequest& r, std::vector<Output>* dx) {
  if (!r.output_gradients[0].valid()) return;
  (*dx)[0] = r.builder.Op("GlobalMaxPoolGrad", {r.y(1), r.output_gradients[0], r.x(0)});
}

void MeanSquaredError(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("MeanSquaredErrorGrad", {r.x(0), r.x(1), r.output_gradients[0]});
}

void SparseSoftmaxCrossEntropy(const GradientRequest& r, std::vector<Output>* dx) {
  if (!r.output_gradients[0].valid()) return;
  (*dx)[0] = r.builder.Op("SparseSoftmaxCrossEntropyGrad", {r.y(1), r.x(1), r.output_gradients[0]},
                          r.node.attributes);
}

void SoftmaxCrossEntropy(const GradientRequest& r, std::vector<Output>* dx) {
  if (!r.output_gradients[0].valid()) return;
  (*dx)[0] = r.builder.Op("SoftmaxCrossEntropyGrad", {r.y(1), r.x(1), r.output_gradients[0]},
                          r.node.attributes);
}

void ElementwiseLoss(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op(absl::StrCat(r.node.op, "Grad"), {r.x(0), r.x(1), r.output_gradients[0]},
                          r.node.attributes);
}

// The moving averages have no gradient; in inference the op has none.
void BatchNorm(const GradientRequest& r, std::vector<Output>* dx) {
  if (!r.output_gradients[0].valid()) return;
  const Node* gradient = r.builder.AddNode(
      "BatchNormGrad", {r.x(0), r.x(1), r.y(1), r.y(3), r.output_gradients[0]}, r.node.attributes);
  for (int i = 0; i < 3; ++i) (*dx)[i] = Output{gradient, i};
}

}  // namespace shoal::gradients
