// Defines the ops of a graph: the number of their inputs, the shapes of their outputs and their
// gradients. op_table.cc has the table of all ops.
#ifndef SHOAL_ML_GRAPH_OP_DEFINITION_H_
#define SHOAL_ML_GRAPH_OP_DEFINITION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/device/attributes.h"
#include "ml/graph/graph.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal {

class GraphBuilder;

struct ShapeRequest {
  const Attributes& attributes;
  absl::Span<const TensorSpec> inputs;
};
// Appends one spec per output. The error is a short description of what does not fit.
using ShapeFunction = absl::Status (*)(const ShapeRequest& request,
                                       std::vector<TensorSpec>* outputs);

struct GradientRequest {
  GraphBuilder& builder;  // errors go to its status()
  const Node& node;
  // Not valid for outputs on which the loss does not depend.
  absl::Span<const Output> output_gradients;

  Output x(int index) const { return node.inputs[index]; }
  Output y(int index) const { return Output{&node, index}; }
};
// Adds the nodes of the gradients and sets the gradient of each input that has one;
// `input_gradients` has one entry per input.
using GradientFunction = void (*)(const GradientRequest& request,
                                  std::vector<Output>* input_gradients);

struct OpDefinition {
  const char* name;
  int min_inputs;
  int max_inputs;
  ShapeFunction shape;
  GradientFunction gradient;  // null: no input has a gradient
  // Bit i is set if the op uses only the shape of input i. The compiled graph drops this input and
  // all nodes that only compute it.
  uint32_t shape_only_inputs = 0;
};

// Returns null for an unknown op.
const OpDefinition* FindOp(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_OP_DEFINITION_H_
