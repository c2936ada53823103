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

}  // namespace shoal::ops
