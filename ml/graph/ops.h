// Typed spellings of ops. Each adds one node (or the few it says) to the builder's graph.
#ifndef SHOAL_ML_GRAPH_OPS_H_
#define SHOAL_ML_GRAPH_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"

namespace shoal::ops {

// A scalar; or `value` everywhere in a tensor of a known shape.
Output Constant(GraphBuilder& builder, double value, DataType dtype = DataType::kFloat32,
                const Shape& shape = {});

Output MatMul(GraphBuilder& builder, Output a, Output b, bool transpose_a = false,
              bool transpose_b = false);
Output Add(GraphBuilder& builder, Output a, Output b, absl::string_view name = "");
Output Sub(GraphBuilder& builder, Output a, Output b);
Output Mul(GraphBuilder& builder, Output a, Output b);
Output Div(GraphBuilder& builder, Output a, Output b);
// a to the power b, with broadcasting.
Output Pow(GraphBuilder& builder, Output a, Output b);
// min(max(x, low), high).
Output Clip(GraphBuilder& builder, Output x, double low, double high);
// bool, with broadcasting.
Output Equal(GraphBuilder& builder, Output a, Output b);
Output Less(GraphBuilder& builder, Output a, Output b);
Output Greater(GraphBuilder& builder, Output a, Output b);
// x where the condition (bool) holds, else y; the three are broadcast.
Output Where(GraphBuilder& builder, Output condition, Output x, Output y);
// The sum of inputs of one shape, in their order; a single input is passed through.
Output AddN(GraphBuilder& builder, std::vector<Output> inputs, absl::string_view name = "");
Output Scale(GraphBuilder& builder, Output x, double factor, absl::string_view name = "");
Output Neg(GraphBuilder& builder, Output x);
Output Square(GraphBuilder& builder, Output x);
Output ReduceSum(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                 bool keep_dims = false);
Output ReduceMean(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                  bool keep_dims = false, absl::string_view name = "");
// The largest (smallest) element; its gradient is shared equally by all that equal it.
Output ReduceMax(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                 bool keep_dims = false);
Output ReduceMin(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                 bool keep_dims = false);
// ONNX's rules: 0 copies the dimension, -1 takes what is left.
Output Reshape(GraphBuilder& builder, Output x, std::vector<int64_t> shape);
Output ReshapeLike(GraphBuilder& builder, Output x, Output like);
// x summed over the dimensions along which it was broadcast from the shape of `like`; x itself
// where the shapes are the same.
Output SumTo(GraphBuilder& builder, Output x, Output like);
Output BroadcastTo(GraphBuilder& builder, Output x, Output like);

Output Cast(GraphBuilder& builder, Output x, DataType dtype);
// Axis i of the result is axis perm[i] of x.
Output Transpose(GraphBuilder& builder, Output x, std::vector<int64_t> perm);
Output Concat(GraphBuilder& builder, std::vector<Output> parts, int64_t axis);
// The parts of these sizes along the axis.
std::vector<Output> Split(GraphBuilder& builder, Output x, int64_t axis,
                          std::vector<int64_t> sizes);
// Elements [start, end) of each axis, negative from the end, cut to the axis; all axes in order if
// none are given.
Output Slice(GraphBuilder& builder, Output x, std::vector<int64_t> starts,
             std::vector<int64_t> ends, std::vector<int64_t> axes = {});
// pads: in front of each axis, then behind each.
Output Pad(GraphBuilder& builder, Output x, std::vector<int64_t> pads, double value = 0);
// Removes all dimensions of 1 if no axes are given.
Output Squeeze(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {});
// Puts dimensions of 1 where the result has these axes.
Output Unsqueeze(GraphBuilder& builder, Output x, std::vector<int64_t> axes);
// Rows of the table by their numbers (int32 or int64). A row that does not exist is NaN (0 in whole
// numbers) and gets no gradient.
Output Gather(GraphBuilder& builder, Output table, Output indices);
// Elements are 0 with probability `rate`, the others divided by 1 - rate. Which ones follows from
// the run's seed, epoch and example numbers and from op_id, which no other dropout should have.
Output Dropout(GraphBuilder& builder, Output x, double rate, int64_t op_id);

}  // namespace shoal::ops

#endif  // SHOAL_ML_GRAPH_OPS_H_
