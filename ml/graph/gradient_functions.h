// The gradient functions of the op table. Each adds to the graph the nodes that compute the
// gradients of a node's inputs from the gradients of its outputs.
#ifndef SHOAL_ML_GRAPH_GRADIENT_FUNCTIONS_H_
#define SHOAL_ML_GRAPH_GRADIENT_FUNCTIONS_H_

#include <vector>

#include "ml/graph/op_definition.h"

namespace shoal::gradients {

#define SHOAL_GRADIENT_FUNCTION(name) \
  void name(const GradientRequest& request, std::vector<Output>* input_gradients)

// gradient_functions_math.cc
SHOAL_GRADIENT_FUNCTION(MatMul);
SHOAL_GRADIENT_FUNCTION(Identity);
SHOAL_GRADIENT_FUNCTION(Exp);
SHOAL_GRADIENT_FUNCTION(Log);
SHOAL_GRADIENT_FUNCTION(Sqrt);
SHOAL_GRADIENT_FUNCTION(Neg);
SHOAL_GRADIENT_FUNCTION(Abs);
SHOAL_GRADIENT_FUNCTION(Square);
SHOAL_GRADIENT_FUNCTION(Reciprocal);
SHOAL_GRADIENT_FUNCTION(Add);
SHOAL_GRADIENT_FUNCTION(Sub);
SHOAL_GRADIENT_FUNCTION(Mul);
SHOAL_GRADIENT_FUNCTION(Div);
SHOAL_GRADIENT_FUNCTION(Maximum);
SHOAL_GRADIENT_FUNCTION(Minimum);
SHOAL_GRADIENT_FUNCTION(AddN);
SHOAL_GRADIENT_FUNCTION(Scale);
SHOAL_GRADIENT_FUNCTION(SumTo);
SHOAL_GRADIENT_FUNCTION(BroadcastTo);
SHOAL_GRADIENT_FUNCTION(ReduceSum);
SHOAL_GRADIENT_FUNCTION(ReduceMean);
SHOAL_GRADIENT_FUNCTION(L2Loss);
SHOAL_GRADIENT_FUNCTION(Reshape);
SHOAL_GRADIENT_FUNCTION(Transpose);
SHOAL_GRADIENT_FUNCTION(Concat);
SHOAL_GRADIENT_FUNCTION(Split);
SHOAL_GRADIENT_FUNCTION(Cast);

// gradient_functions_array.cc
SHOAL_GRADIENT_FUNCTION(Slice);
SHOAL_GRADIENT_FUNCTION(Pad);
SHOAL_GRADIENT_FUNCTION(Gather);
SHOAL_GRADIENT_FUNCTION(EmbeddingBag);
// For ops on vectors: adds the op with "Grad" after its name, with inputs (dy, all inputs).
SHOAL_GRADIENT_FUNCTION(OfVectors);
SHOAL_GRADIENT_FUNCTION(Dropout);
// Used for ReduceMax and ReduceMin.
SHOAL_GRADIENT_FUNCTION(ReduceExtreme);

// gradient_functions_element.cc

// For elementwise ops whose gradient needs the output y: adds the op with "Grad" after its name,
// with inputs (y, dy).
SHOAL_GRADIENT_FUNCTION(FromOutput);
// The same for ops whose gradient needs the input x: adds the op with "Grad" after its name, with
// inputs (x, dy).
SHOAL_GRADIENT_FUNCTION(FromInput);
SHOAL_GRADIENT_FUNCTION(Softplus);
SHOAL_GRADIENT_FUNCTION(Erf);
SHOAL_GRADIENT_FUNCTION(Pow);
SHOAL_GRADIENT_FUNCTION(Where);

// gradient_functions_nn.cc
SHOAL_GRADIENT_FUNCTION(Relu);
SHOAL_GRADIENT_FUNCTION(Sigmoid);
SHOAL_GRADIENT_FUNCTION(Tanh);
SHOAL_GRADIENT_FUNCTION(Softmax);
SHOAL_GRADIENT_FUNCTION(LogSoftmax);
SHOAL_GRADIENT_FUNCTION(Conv);
SHOAL_GRADIENT_FUNCTION(ConvTranspose);
SHOAL_GRADIENT_FUNCTION(LayerNorm);
SHOAL_GRADIENT_FUNCTION(LocalResponseNorm);
SHOAL_GRADIENT_FUNCTION(MaxPool);
SHOAL_GRADIENT_FUNCTION(AveragePool);
SHOAL_GRADIENT_FUNCTION(GlobalAveragePool);
SHOAL_GRADIENT_FUNCTION(GlobalMaxPool);
SHOAL_GRADIENT_FUNCTION(MeanSquaredError);
SHOAL_GRADIENT_FUNCTION(SparseSoftmaxCrossEntropy);
SHOAL_GRADIENT_FUNCTION(SoftmaxCrossEntropy);
// For losses of each element: adds the op with "Grad" after its name, with inputs (predictions,
// targets, dy).
SHOAL_GRADIENT_FUNCTION(ElementwiseLoss);
SHOAL_GRADIENT_FUNCTION(BatchNorm);

#undef SHOAL_GRADIENT_FUNCTION

}  // namespace shoal::gradients

#endif  // SHOAL_ML_GRAPH_GRADIENT_FUNCTIONS_H_
