#include <algorithm>
#include <iterator>

#include "ml/graph/gradient_functions.h"
#include "ml/graph/op_definition.h"
#include "ml/graph/shape_functions.h"

namespace shoal {
namespace {

constexpr int kMany = 1 << 20;

// Sorted by name. Shape-only inputs as a mask: bit i for input i.
constexpr OpDefinition kOps[] = {
    {"Abs", 1, 1, shapes::SameAsFirst, gradients::Abs},
    {"AbsoluteDifference", 2, 2, shapes::SameShapes, gradients::ElementwiseLoss},
    {"AbsoluteDifferenceGrad", 3, 3, shapes::SameShapes, nullptr},
    {"Add", 2, 2, shapes::Broadcast, gradients::Add},
    {"AddN", 1, kMany, shapes::SameShapes, gradients::AddN},
    {"AveragePool", 1, 1, shapes::AveragePool, gradients::AveragePool},
    {"AveragePoolGrad", 2, 2, shapes::LikeLast, nullptr, 0b10},
    {"BatchNorm", 5, 5, shapes::BatchNorm, gradients::BatchNorm},
    {"BatchNormGrad", 5, 5, shapes::BatchNormGrad, nullptr},
    {"BroadcastTo", 2, 2, shapes::BroadcastTo, gradients::BroadcastTo, 0b10},
    {"Cast", 1, 1, shapes::Cast, gradients::Cast},
    {"Clip", 1, 1, shapes::Clip, gradients::FromOutput},
    {"ClipGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Concat", 1, kMany, shapes::Concat, gradients::Concat},
    {"ConcatGrad", 2, kMany, shapes::ConcatGrad, nullptr, ~1u},
    {"Constant", 0, 0, shapes::FromAttributes, nullptr},
    {"Conv", 2, 3, shapes::Conv, gradients::Conv},
    {"ConvGrad", 4, 4, shapes::ConvGrad, nullptr},
    {"CorrectCount", 2, 2, shapes::CorrectCount, nullptr},
    {"Div", 2, 2, shapes::Broadcast, gradients::Div},
    {"Dropout", 1, 1, shapes::Dropout, gradients::Dropout},
    {"Elu", 1, 1, shapes::WithAlpha, gradients::FromOutput},
    {"EluGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Equal", 2, 2, shapes::Compare, nullptr},
    {"Erf", 1, 1, shapes::SameAsFirst, gradients::Erf},
    {"Exp", 1, 1, shapes::SameAsFirst, gradients::Exp},
    {"Gather", 2, 2, shapes::Gather, gradients::Gather},
    {"GatherGrad", 3, 3, shapes::GatherGrad, nullptr, 0b100},
    {"Gelu", 1, 1, shapes::Gelu, gradients::FromInput},
    {"GeluGrad", 2, 2, shapes::SameShapes, nullptr},
    {"GlobalAveragePool", 1, 1, shapes::GlobalAveragePool, gradients::GlobalAveragePool},
    {"GlobalAveragePoolGrad", 2, 2, shapes::LikeLast, nullptr, 0b10},
    {"GlobalMaxPool", 1, 1, shapes::GlobalMaxPool, gradients::GlobalMaxPool},
    {"GlobalMaxPoolGrad", 3, 3, shapes::LikeLast, nullptr, 0b100},
    {"Greater", 2, 2, shapes::Compare, nullptr},
    {"Hinge", 2, 2, shapes::SameShapes, gradients::ElementwiseLoss},
    {"HingeGrad", 3, 3, shapes::SameShapes, nullptr},
    {"Huber", 2, 2, shapes::SameShapes, gradients::ElementwiseLoss},
    {"HuberGrad", 3, 3, shapes::SameShapes, nullptr},
    {"Identity", 1, 1, shapes::SameAsFirst, gradients::Identity},
    {"L2Loss", 1, 1, shapes::ScalarLikeFirst, gradients::L2Loss},
    {"LeakyRelu", 1, 1, shapes::WithAlpha, gradients::FromOutput},
    {"LeakyReluGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Less", 2, 2, shapes::Compare, nullptr},
    {"Log", 1, 1, shapes::SameAsFirst, gradients::Log},
    {"LogLoss", 2, 2, shapes::SameShapes, gradients::ElementwiseLoss},
    {"LogLossGrad", 3, 3, shapes::SameShapes, nullptr},
    {"LogSoftmax", 1, 1, shapes::SameAsFirst, gradients::LogSoftmax},
    {"LogSoftmaxGrad", 2, 2, shapes::SameShapes, nullptr},
    {"MatMul", 2, 2, shapes::MatMul, gradients::MatMul},
    {"MaxPool", 1, 1, shapes::MaxPool, gradients::MaxPool},
    {"MaxPoolGrad", 3, 3, shapes::LikeLast, nullptr, 0b100},
    {"Maximum", 2, 2, shapes::Broadcast, gradients::Maximum},
    {"MeanSquaredError", 2, 2, shapes::MeanSquaredError, gradients::MeanSquaredError},
    {"MeanSquaredErrorGrad", 3, 3, shapes::SameAsFirst, nullptr},
    {"Minimum", 2, 2, shapes::Broadcast, gradients::Minimum},
    {"Mul", 2, 2, shapes::Broadcast, gradients::Mul},
    {"Neg", 1, 1, shapes::SameAsFirst, gradients::Neg},
    {"Pad", 1, 1, shapes::Pad, gradients::Pad},
    {"Placeholder", 0, 0, shapes::FromAttributes, nullptr},
    {"Pow", 2, 2, shapes::Broadcast, gradients::Pow},
    {"Reciprocal", 1, 1, shapes::SameAsFirst, gradients::Reciprocal},
    {"ReduceMax", 1, 1, shapes::Reduce, gradients::ReduceExtreme},
    {"ReduceMean", 1, 1, shapes::Reduce, gradients::ReduceMean},
    {"ReduceMin", 1, 1, shapes::Reduce, gradients::ReduceExtreme},
    {"ReduceSum", 1, 1, shapes::Reduce, gradients::ReduceSum},
    {"Relu", 1, 1, shapes::SameAsFirst, gradients::Relu},
    {"ReluGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Reshape", 1, 2, shapes::Reshape, gradients::Reshape, 0b10},
    {"Scale", 1, 3, shapes::SameAsFirst, gradients::Scale, 0b110},
    {"Sigmoid", 1, 1, shapes::SameAsFirst, gradients::Sigmoid},
    {"SigmoidCrossEntropy", 2, 2, shapes::SameShapes, gradients::ElementwiseLoss},
    {"SigmoidCrossEntropyGrad", 3, 3, shapes::SameShapes, nullptr},
    {"SigmoidGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Silu", 1, 1, shapes::SameAsFirst, gradients::FromInput},
    {"SiluGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Slice", 1, 1, shapes::Slice, gradients::Slice},
    {"SliceGrad", 2, 2, shapes::LikeSecond, nullptr, 0b10},
    {"Softmax", 1, 1, shapes::SameAsFirst, gradients::Softmax},
    {"SoftmaxCrossEntropy", 2, 2, shapes::SoftmaxCrossEntropy, gradients::SoftmaxCrossEntropy},
    {"SoftmaxCrossEntropyGrad", 3, 3, shapes::SameAsFirst, nullptr},
    {"SoftmaxGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Softplus", 1, 1, shapes::SameAsFirst, gradients::Softplus},
    {"SparseSoftmaxCrossEntropy", 2, 2, shapes::SparseSoftmaxCrossEntropy,
     gradients::SparseSoftmaxCrossEntropy},
    {"SparseSoftmaxCrossEntropyGrad", 3, 3, shapes::SameAsFirst, nullptr},
    {"Split", 1, 1, shapes::Split, gradients::Split},
    {"Sqrt", 1, 1, shapes::SameAsFirst, gradients::Sqrt},
    {"Square", 1, 1, shapes::SameAsFirst, gradients::Square},
    {"Squeeze", 1, 1, shapes::Squeeze, gradients::Reshape},
    {"Statistic", 1, 1, shapes::SameAsFirst, nullptr},
    {"Sub", 2, 2, shapes::Broadcast, gradients::Sub},
    {"SumTo", 2, 2, shapes::SumTo, gradients::SumTo, 0b10},
    {"Tanh", 1, 1, shapes::SameAsFirst, gradients::Tanh},
    {"TanhGrad", 2, 2, shapes::SameShapes, nullptr},
    {"Transpose", 1, 1, shapes::Transpose, gradients::Transpose},
    {"Unsqueeze", 1, 1, shapes::Unsqueeze, gradients::Reshape},
    {"VariableStep", 0, 0, shapes::FromAttributes, nullptr},
    {"Where", 3, 3, shapes::Where, gradients::Where},
};

}  // namespace

const OpDefinition* FindOp(absl::string_view name) {
  const auto* it = std::lower_bound(
      std::begin(kOps), std::end(kOps), name,
      [](const OpDefinition& op, absl::string_view wanted) { return op.name < wanted; });
  return it != std::end(kOps) && it->name == name ? it : nullptr;
}

}  // namespace shoal
