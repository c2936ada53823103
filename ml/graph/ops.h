// Functions that add one op to the builder's graph and return its output. Elementwise ops with
// several inputs broadcast them by numpy's rules.
#ifndef SHOAL_ML_GRAPH_OPS_H_
#define SHOAL_ML_GRAPH_OPS_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"

namespace shoal::ops {

// Returns a tensor of this shape whose elements are all `value`; by default a scalar. The shape
// must be known.
Output Constant(GraphBuilder& builder, double value, DataType dtype = DataType::kFloat32,
                const Shape& shape = {});

Output MatMul(GraphBuilder& builder, Output a, Output b, bool transpose_a = false,
              bool transpose_b = false);
Output Add(GraphBuilder& builder, Output a, Output b, absl::string_view name = "");
Output Sub(GraphBuilder& builder, Output a, Output b);
Output Mul(GraphBuilder& builder, Output a, Output b);
Output Div(GraphBuilder& builder, Output a, Output b);
// Returns a to the power b, elementwise.
Output Pow(GraphBuilder& builder, Output a, Output b);
// Returns min(max(x, low), high).
Output Clip(GraphBuilder& builder, Output x, double low, double high);
// Return bool, elementwise.
Output Equal(GraphBuilder& builder, Output a, Output b);
Output Less(GraphBuilder& builder, Output a, Output b);
Output Greater(GraphBuilder& builder, Output a, Output b);
// Returns x where the condition (bool) is true and y elsewhere. All three inputs are broadcast.
Output Where(GraphBuilder& builder, Output condition, Output x, Output y);
// Returns the sum of inputs of the same shape, added in their order. Returns a single input itself.
Output AddN(GraphBuilder& builder, std::vector<Output> inputs, absl::string_view name = "");
Output Scale(GraphBuilder& builder, Output x, double factor, absl::string_view name = "");
Output Neg(GraphBuilder& builder, Output x);
Output Square(GraphBuilder& builder, Output x);
Output ReduceSum(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                 bool keep_dims = false);
Output ReduceMean(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                  bool keep_dims = false, absl::string_view name = "");
// Return the largest (smallest) element. Elements that are equal to it share its gradient equally.
Output ReduceMax(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                 bool keep_dims = false);
Output ReduceMin(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {},
                 bool keep_dims = false);
// Follows ONNX: in `shape`, 0 copies the dimension of x, and -1 is computed from the number of
// elements.
Output Reshape(GraphBuilder& builder, Output x, std::vector<int64_t> shape);
Output ReshapeLike(GraphBuilder& builder, Output x, Output like);
// Returns x summed over the dimensions along which it was broadcast from the shape of `like`.
// Returns x itself if the shapes are equal.
Output SumTo(GraphBuilder& builder, Output x, Output like);
Output BroadcastTo(GraphBuilder& builder, Output x, Output like);

Output Cast(GraphBuilder& builder, Output x, DataType dtype);
// Permutes the axes: axis i of the result is axis perm[i] of x.
Output Transpose(GraphBuilder& builder, Output x, std::vector<int64_t> perm);
Output Concat(GraphBuilder& builder, std::vector<Output> parts, int64_t axis);
// Divides x along the axis into parts of these sizes.
std::vector<Output> Split(GraphBuilder& builder, Output x, int64_t axis,
                          std::vector<int64_t> sizes);
// Returns the elements [starts[i], ends[i]) along axes[i]; by default along the first axes.
// Negative indices count from the end, and indices beyond the axis are clipped.
Output Slice(GraphBuilder& builder, Output x, std::vector<int64_t> starts,
             std::vector<int64_t> ends, std::vector<int64_t> axes = {});
// Pads x with `value`. `pads` has the number of elements to add before each axis, then after each
// axis.
Output Pad(GraphBuilder& builder, Output x, std::vector<int64_t> pads, double value = 0);
// Removes these axes, whose sizes must be 1; without `axes`, all axes of size 1.
Output Squeeze(GraphBuilder& builder, Output x, std::vector<int64_t> axes = {});
// Inserts axes of size 1, which have these numbers in the result.
Output Unsqueeze(GraphBuilder& builder, Output x, std::vector<int64_t> axes);
// Returns the rows of the table with these indices (int32 or int64). For an index out of range it
// returns NaN (0 for integers), and no row gets its gradient.
Output Gather(GraphBuilder& builder, Output table, Output indices);
// Returns the sum (or mean) of a bag of rows for each example, [batch, dim]; 0 for an empty bag.
// rows: [rows, dim]. indices (int32 or int64): row numbers; one out of range gives NaN, and no row
// gets its gradient. offsets (int32 or int64, [batch + 1]): the bag of example i is indices
// offsets[i] to offsets[i + 1] - 1; indices outside of all bags are not read. weights (one number
// for each index, not differentiated; may be not valid): each row is multiplied by its weight, and
// the mean is divided by the sum of the weights.
Output EmbeddingBag(GraphBuilder& builder, Output rows, Output indices, Output offsets,
                    Output weights = {}, bool mean = false);
// Returns the products of all pairs of n vectors, each [batch, dim], as [batch, n * (n - 1) / 2],
// in the order (1, 0), (2, 0), (2, 1), (3, 0), ...: the lower triangle of the matrix of dot
// products.
Output PairwiseDots(GraphBuilder& builder, std::vector<Output> vectors);
// Returns the sum of these products, [batch, 1], in time that grows with n.
Output FactorizationMachine(GraphBuilder& builder, std::vector<Output> vectors);
// Sets elements to 0 with probability `rate` and divides the others by 1 - rate. The choice depends
// on the run's seed, the epoch, the number of the example and op_id, which should be different for
// every dropout.
Output Dropout(GraphBuilder& builder, Output x, double rate, int64_t op_id);

}  // namespace shoal::ops

#endif  // SHOAL_ML_GRAPH_OPS_H_
