#include "ml/graph/ops.h"

#include <utility>

namespace shoal::ops {

Output Constant(GraphBuilder& builder, double value, DataType dtype, const Shape& shape) {
  return builder.Op("Constant", {},
                    {{"value", value},
                     {"dtype", static_cast<int64_t>(dtype)},
                     {"shape", std::vector<int64_t>(shape.dims().begin(), shape.dims().end())}});
}

Output MatMul(GraphBuilder& builder, Output a, Output b, bool transpose_a, bool transpose_b) {
  return builder.Op("MatMul", {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
}

Output Add(GraphBuilder& builder, Output a, Output b, absl::string_view name) {
  return builder.Op("Add", {a, b}, {}, name);
}

Output Sub(GraphBuilder& builder, Output a, Output b) { return builder.Op("Sub", {a, b}); }

Output Mul(GraphBuilder& builder, Output a, Output b) { return builder.Op("Mul", {a, b}); }

Output Div(GraphBuilder& builder, Output a, Output b) { return builder.Op("Div", {a, b}); }

Output Pow(GraphBuilder& builder, Output a, Output b) { return builder.Op("Pow", {a, b}); }

Output Clip(GraphBuilder& builder, Output x, double low, double high) {
  return builder.Op("Clip", {x}, {{"min", low}, {"max", high}});
}

Output Equal(GraphBuilder& builder, Output a, Output b) { return builder.Op("Equal", {a, b}); }

Output Less(GraphBuilder& builder, Output a, Output b) { return builder.Op("Less", {a, b}); }

Output Greater(GraphBuilder& builder, Output a, Output b) { return builder.Op("Greater", {a, b}); }

Output Where(GraphBuilder& builder, Output condition, Output x, Output y) {
  return builder.Op("Where", {condition, x, y});
}

Output AddN(GraphBuilder& builder, std::vector<Output> inputs, absl::string_view name) {
  if (inputs.size() == 1) return inputs[0];
  return builder.Op("AddN", std::move(inputs), {}, name);
}

Output Scale(GraphBuilder& builder, Output x, double factor, absl::string_view name) {
  return builder.Op("Scale", {x}, {{"factor", factor}}, name);
}

Output Neg(GraphBuilder& builder, Output x) { return builder.Op("Neg", {x}); }

Output Square(GraphBuilder& builder, Output x) { return builder.Op("Square", {x}); }

Output ReduceSum(GraphBuilder& builder, Output x, std::vector<int64_t> axes, bool keep_dims) {
  return builder.Op("ReduceSum", {x}, {{"axes", std::move(axes)}, {"keepdims", keep_dims}});
}

Output ReduceMean(GraphBuilder& builder, Output x, std::vector<int64_t> axes, bool keep_dims,
                  absl::string_view name) {
  return builder.Op("ReduceMean", {x}, {{"axes", std::move(axes)}, {"keepdims", keep_dims}}, name);
}

Output Reshape(GraphBuilder& builder, Output x, std::vector<int64_t> shape) {
  return builder.Op("Reshape", {x}, {{"shape", std::move(shape)}});
}

Output ReshapeLike(GraphBuilder& builder, Output x, Output like) {
  return builder.Op("Reshape", {x, like});
}

Output SumTo(GraphBuilder& builder, Output x, Output like) {
  if (x.valid() && like.valid() && x.shape() == like.shape()) return x;
  return builder.Op("SumTo", {x, like});
}

Output BroadcastTo(GraphBuilder& builder, Output x, Output like) {
  return builder.Op("BroadcastTo", {x, like});
}

Output ReduceMax(GraphBuilder& builder, Output x, std::vector<int64_t> axes, bool keep_dims) {
  return builder.Op("ReduceMax", {x}, {{"axes", std::move(axes)}, {"keepdims", keep_dims}});
}

Output ReduceMin(GraphBuilder& builder, Output x, std::vector<int64_t> axes, bool keep_dims) {
  return builder.Op("ReduceMin", {x}, {{"axes", std::move(axes)}, {"keepdims", keep_dims}});
}

Output Cast(GraphBuilder& builder, Output x, DataType dtype) {
  return builder.Op("Cast", {x}, {{"to", static_cast<int64_t>(dtype)}});
}

Output Transpose(GraphBuilder& builder, Output x, std::vector<int64_t> perm) {
  return builder.Op("Transpose", {x}, {{"perm", std::move(perm)}});
}

Output Concat(GraphBuilder& builder, std::vector<Output> parts, int64_t axis) {
  return builder.Op("Concat", std::move(parts), {{"axis", axis}});
}

std::vector<Output> Split(GraphBuilder& builder, Output x, int64_t axis,
                          std::vector<int64_t> sizes) {
  const int num_parts = static_cast<int>(sizes.size());
  const Node* node = builder.AddNode("Split", {x}, {{"axis", axis}, {"split", std::move(sizes)}});
  std::vector<Output> parts;
  for (int i = 0; i < num_parts; ++i) parts.push_back(Output{node, i});
  return parts;
}

Output Slice(GraphBuilder& builder, Output x, std::vector<int64_t> starts,
             std::vector<int64_t> ends, std::vector<int64_t> axes) {
  return builder.Op(
      "Slice", {x},
      {{"starts", std::move(starts)}, {"ends", std::move(ends)}, {"axes", std::move(axes)}});
}

Output Pad(GraphBuilder& builder, Output x, std::vector<int64_t> pads, double value) {
  return builder.Op("Pad", {x}, {{"pads", std::move(pads)}, {"value", value}});
}

Output Squeeze(GraphBuilder& builder, Output x, std::vector<int64_t> axes) {
  return builder.Op("Squeeze", {x}, {{"axes", std::move(axes)}});
}

Output Unsqueeze(GraphBuilder& builder, Output x, std::vector<int64_t> axes) {
  return builder.Op("Unsqueeze", {x}, {{"axes", std::move(axes)}});
}

Output Gather(GraphBuilder& builder, Output table, Output indices) {
  return builder.Op("Gather", {table, indices});
}

Output EmbeddingBag(GraphBuilder& builder, Output rows, Output indices, Output offsets,
                    Output weights, bool mean) {
  std::vector<Output> inputs = {rows, indices, offsets};
  if (weights.valid()) inputs.push_back(weights);
  return builder.Op("EmbeddingBag", std::move(inputs), {{"mean", mean}});
}

Output PairwiseDots(GraphBuilder& builder, std::vector<Output> vectors) {
  return builder.Op("PairwiseDots", std::move(vectors));
}

Output FactorizationMachine(GraphBuilder& builder, std::vector<Output> vectors) {
  return builder.Op("FactorizationMachine", std::move(vectors));
}

Output Dropout(GraphBuilder& builder, Output x, double rate, int64_t op_id) {
  return builder.Op("Dropout", {x}, {{"rate", rate}, {"op_id", op_id}});
}

}  // namespace shoal::ops
