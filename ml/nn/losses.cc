#include "ml/nn/losses.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"

namespace shoal {
namespace {

Output CosineDistance(GraphBuilder& builder, Output predictions, Output labels) {
  if (!predictions.valid() || !labels.valid()) return {};
  if (predictions.shape().rank() != labels.shape().rank()) {
    builder.SetError(absl::InvalidArgumentError(
        absl::StrCat("cosine_distance compares vectors of one shape, has predictions ",
                     predictions.shape().ToString(), " and labels ", labels.shape().ToString())));
    return {};
  }
  const Output product = ops::ReduceSum(builder, ops::Mul(builder, predictions, labels), {-1});
  return ops::Sub(builder, ops::Constant(builder, 1, product.dtype()), product);
}

// Returns the mean of the op's first output, in a name scope with the name of the loss.
Output AddMeanLoss(GraphBuilder& builder, LossKind kind, Output predictions, Output labels,
                   Attributes attributes) {
  const NamedLoss* found = Losses().data();
  while (found->kind != kind) ++found;
  const auto scope = builder.WithNameScope(absl::StrCat(found->name, "_loss"));
  Output loss = kind == LossKind::kCosineDistance
                    ? CosineDistance(builder, predictions, labels)
                    : builder.Op(found->op, {predictions, labels}, std::move(attributes));
  if (kind != LossKind::kMeanSquaredError) {
    loss = ops::ReduceMean(builder, loss, {}, false, "value");
  }
  builder.AddToCollection(kLosses, loss);
  return loss;
}

}  // namespace

Output AddLoss(GraphBuilder& builder, LossKind kind, Output predictions, Output labels) {
  return AddMeanLoss(builder, kind, predictions, labels, {});
}

Output AddSoftmaxCrossEntropyLoss(GraphBuilder& builder, Output logits, Output labels,
                                  double label_smoothing) {
  if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
    builder.SetError(absl::InvalidArgumentError(
        absl::StrCat("label_smoothing: must be in [0, 1], is ", label_smoothing)));
    return {};
  }
  if (!labels.valid() || labels.shape().rank() == 1) {
    return AddMeanLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, logits, labels,
                       {{"label_smoothing", label_smoothing}});
  }
  if (label_smoothing > 0) {
    const auto classes = static_cast<double>(labels.shape().dim(labels.shape().rank() - 1));
    const Output share = ops::Constant(builder, label_smoothing / classes, labels.dtype());
    labels = ops::Add(builder, ops::Scale(builder, labels, 1 - label_smoothing), share);
  }
  return AddMeanLoss(builder, LossKind::kSoftmaxCrossEntropy, logits, labels, {});
}

Output AddLogLoss(GraphBuilder& builder, Output predictions, Output labels, double epsilon) {
  return AddMeanLoss(builder, LossKind::kLog, predictions, labels, {{"epsilon", epsilon}});
}

Output CorrectCount(GraphBuilder& builder, Output logits, Output labels) {
  const Output count = builder.Op("CorrectCount", {logits, labels});
  builder.AddToCollection(kCorrectCounts, count);
  return count;
}

}  // namespace shoal
