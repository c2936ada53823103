// The shape functions of the op table. Unknown batch dimensions stay unknown in the outputs; when a
// graph is compiled, they are known and the functions are called again.
#ifndef SHOAL_ML_GRAPH_SHAPE_FUNCTIONS_H_
#define SHOAL_ML_GRAPH_SHAPE_FUNCTIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ml/graph/op_definition.h"

namespace shoal {

// Broadcasts two shapes by numpy's rule; unknown dimensions stay unknown.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Returns the shape of x after a reduction of these axes: all axes if the list is empty; negative
// axes count from the end.
absl::StatusOr<Shape> ReducedShape(const Shape& x, const std::vector<int64_t>& axes,
                                   bool keep_dims);

namespace shapes {

#define SHOAL_SHAPE_FUNCTION(name) \
  absl::Status name(const ShapeRequest& request, std::vector<TensorSpec>* outputs)

// shape_functions_math.cc
SHOAL_SHAPE_FUNCTION(FromAttributes);  // attributes dtype, shape
SHOAL_SHAPE_FUNCTION(SameAsFirst);     // one output like input 0
SHOAL_SHAPE_FUNCTION(LikeSecond);      // dtype of input 0, shape of input 1
SHOAL_SHAPE_FUNCTION(Broadcast);       // two inputs
SHOAL_SHAPE_FUNCTION(SameShapes);      // all inputs alike
SHOAL_SHAPE_FUNCTION(MatMul);
SHOAL_SHAPE_FUNCTION(Reduce);
SHOAL_SHAPE_FUNCTION(ScalarLikeFirst);
SHOAL_SHAPE_FUNCTION(Reshape);
SHOAL_SHAPE_FUNCTION(Transpose);
SHOAL_SHAPE_FUNCTION(Concat);
SHOAL_SHAPE_FUNCTION(Split);
SHOAL_SHAPE_FUNCTION(Cast);
SHOAL_SHAPE_FUNCTION(ConcatGrad);
SHOAL_SHAPE_FUNCTION(SumTo);
SHOAL_SHAPE_FUNCTION(BroadcastTo);

// shape_functions_array.cc
SHOAL_SHAPE_FUNCTION(Slice);
SHOAL_SHAPE_FUNCTION(Pad);
SHOAL_SHAPE_FUNCTION(Squeeze);
SHOAL_SHAPE_FUNCTION(Unsqueeze);
SHOAL_SHAPE_FUNCTION(Gather);
SHOAL_SHAPE_FUNCTION(GatherGrad);
SHOAL_SHAPE_FUNCTION(Dropout);

// shape_functions_feature.cc
SHOAL_SHAPE_FUNCTION(EmbeddingBag);
SHOAL_SHAPE_FUNCTION(PairwiseDots);  // vectors [batch, dim]
SHOAL_SHAPE_FUNCTION(FactorizationMachine);
SHOAL_SHAPE_FUNCTION(LikeAllAfterFirst);  // one output like each input but the first

// shape_functions_element.cc
SHOAL_SHAPE_FUNCTION(Clip);
SHOAL_SHAPE_FUNCTION(WithAlpha);  // LeakyRelu, Elu
SHOAL_SHAPE_FUNCTION(Gelu);
SHOAL_SHAPE_FUNCTION(Compare);  // two inputs of one type, broadcast -> bool
SHOAL_SHAPE_FUNCTION(Where);

// shape_functions_nn.cc
SHOAL_SHAPE_FUNCTION(Conv);
SHOAL_SHAPE_FUNCTION(ConvGrad);
SHOAL_SHAPE_FUNCTION(ConvTranspose);
SHOAL_SHAPE_FUNCTION(LayerNorm);
SHOAL_SHAPE_FUNCTION(Images);  // one output like input 0, which must be images
SHOAL_SHAPE_FUNCTION(MaxPool);
SHOAL_SHAPE_FUNCTION(AveragePool);
SHOAL_SHAPE_FUNCTION(GlobalAveragePool);
SHOAL_SHAPE_FUNCTION(GlobalMaxPool);
SHOAL_SHAPE_FUNCTION(LikeLast);  // pool gradients: dtype of dy, shape of the shape-only last input
SHOAL_SHAPE_FUNCTION(MeanSquaredError);
SHOAL_SHAPE_FUNCTION(SparseSoftmaxCrossEntropy);
SHOAL_SHAPE_FUNCTION(SoftmaxCrossEntropy);
SHOAL_SHAPE_FUNCTION(CorrectCount);
SHOAL_SHAPE_FUNCTION(BatchNorm);
SHOAL_SHAPE_FUNCTION(BatchNormGrad);

#undef SHOAL_SHAPE_FUNCTION

}  // namespace shapes
}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_SHAPE_FUNCTIONS_H_
