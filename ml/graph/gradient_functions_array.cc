#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/graph/gradient_functions.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"

namespace shoal::gradients {

// Adds a SliceGrad, which becomes a Pad with zeros when the graph is compiled and the shapes are
// known.
void Slice(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("SliceGrad", {r.output_gradients[0], r.x(0)}, r.node.attributes);
}

void Pad(const GradientRequest& r, std::vector<Output>* dx) {
  const std::vector<int64_t> pads = r.node.attributes.GetInts("pads", {});
  const size_t rank = pads.size() / 2;
  if (rank == 0) {
    (*dx)[0] = r.output_gradients[0];
    return;
  }
  std::vector<int64_t> starts(pads.begin(), pads.begin() + static_cast<int64_t>(rank)), ends;
  for (size_t d = rank; d < pads.size(); ++d) {
    ends.push_back(pads[d] == 0 ? std::numeric_limits<int64_t>::max() : -pads[d]);
  }
  (*dx)[0] = ops::Slice(r.builder, r.output_gradients[0], std::move(starts), std::move(ends));
}

void Gather(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("GatherGrad", {r.x(1), r.output_gradients[0], r.x(0)});
}

// Several of these on the same rows become one when the graph is compiled, so the attributes are
// lists, with one entry for each bag.
void EmbeddingBag(const GradientRequest& r, std::vector<Output>* dx) {
  std::vector<Output> inputs = {r.x(0), r.output_gradients[0]};
  inputs.insert(inputs.end(), r.node.inputs.begin() + 1, r.node.inputs.end());
  const std::vector<int64_t> mean = {r.node.attributes.GetBool("mean", false) ? 1 : 0};
  const std::vector<int64_t> weighted = {r.node.inputs.size() > 3 ? 1 : 0};
  (*dx)[0] =
      r.builder.Op("EmbeddingBagGrad", std::move(inputs), {{"mean", mean}, {"weighted", weighted}});
}

void OfVectors(const GradientRequest& r, std::vector<Output>* dx) {
  std::vector<Output> inputs = {r.output_gradients[0]};
  inputs.insert(inputs.end(), r.node.inputs.begin(), r.node.inputs.end());
  const Node* node = r.builder.AddNode(absl::StrCat(r.node.op, "Grad"), std::move(inputs));
  for (size_t i = 0; node != nullptr && i < dx->size(); ++i) {
    (*dx)[i] = Output{node, static_cast<int>(i)};
  }
}

// Drops the same elements, because the same key gives the same mask.
void Dropout(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op("Dropout", {r.output_gradients[0]}, r.node.attributes);
}

// Elements that equal the result share its gradient equally, as in TensorFlow.
void ReduceExtreme(const GradientRequest& r, std::vector<Output>* dx) {
  const Output x = r.x(0);
  const std::vector<int64_t> axes = r.node.attributes.GetInts("axes", {});
  const Attributes kept{{"reduced_axes", axes}};
  const Output y = r.builder.Op("Reshape", {r.y(0), x}, kept);
  const Output dy = r.builder.Op("Reshape", {r.output_gradients[0], x}, kept);
  const Output is_chosen = ops::Cast(r.builder, ops::Equal(r.builder, x, y), x.dtype());
  const Output count = ops::ReduceSum(r.builder, is_chosen, axes, true);
  (*dx)[0] = ops::Mul(r.builder, is_chosen, ops::Div(r.builder, dy, count));
}

}  // namespace shoal::gradients
