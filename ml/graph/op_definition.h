// Defines what the graph knows of an op: how many inputs it has, the shapes it gives, how to
// differentiate it. One explicit table (op_table.cc) holds them all.
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
// Adds one spec per output, or says in a few words what does not fit.
using ShapeFunction = absl::Status (*)(const ShapeRequest& request,
                                       std::vector<TensorSpec>* outputs);

struct GradientRequest {
  GraphBuilder& builder;  // errors go to its status()
  const Node& node;
  absl::Span<const Output> output_gradients;  // not valid where nothing flows back

  Output x(int index) const { return node.inputs[index]; }
  Output y(int index) const { return Output{&node, index}; }
};
// Sets the gradient of each input that has one; `input_gradients` has one entry per input.
using GradientFunction = void (*)(const GradientRequest& request,
                                  std::vector<Output>* input_gradients);

struct OpDefinition {
  const char* name;
  int min_inputs;
  int max_inputs;
  ShapeFunction shape;
  GradientFunction gradient;  // null: nothing flows back
  // Bit i: only the shape of input i matters. The compiled graph drops the input and whatever was
  // computed for it alone.
  uint32_t shape_only_inputs = 0;
};

// Null for an unknown op.
const OpDefinition* FindOp(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_OP_DEFINITION_H_
