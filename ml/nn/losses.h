// Losses. Each function Add...Loss computes a scalar, the mean over the batch, adds it to the
// collection kLosses and returns it.
#ifndef SHOAL_ML_NN_LOSSES_H_
#define SHOAL_ML_NN_LOSSES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"

namespace shoal {

enum class LossKind {
  kSparseSoftmaxCrossEntropy,  // logits [batch, classes], labels int32 [batch]
  kSoftmaxCrossEntropy,        // logits and label probabilities [batch, classes]
  kSigmoidCrossEntropy,        // logits and labels in [0, 1] of one shape
  kLog,                        // predictions in (0, 1) and labels in [0, 1] of one shape
  kMeanSquaredError,           // predictions and targets, broadcast against each other
  kAbsoluteDifference,         // both of one shape
  kHinge,                      // logits and labels in {0, 1} of one shape
  kHuber,                      // both of one shape
  // 1 - the sum over the last axis of predictions * labels, which should be unit vectors
  kCosineDistance,
};

// Parses a name of ModelConfig.loss, such as "sparse_softmax_cross_entropy". InvalidArgument lists
// all names.
absl::StatusOr<LossKind> ParseLossKind(absl::string_view name);
absl::string_view LossName(LossKind kind);

Output AddLoss(GraphBuilder& builder, LossKind kind, Output predictions, Output labels);

// Replaces each label by (1 - s) * label + s / classes, where s is label_smoothing.
Output AddSoftmaxCrossEntropyLoss(GraphBuilder& builder, Output logits, Output labels,
                                  double label_smoothing = 0);
Output AddLogLoss(GraphBuilder& builder, Output predictions, Output labels, double epsilon = 1e-7);

// Counts the rows of `logits` whose largest element is at the label. Adds the count, a scalar, to
// the collection kCorrectCounts; it is not a loss.
Output CorrectCount(GraphBuilder& builder, Output logits, Output labels);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LOSSES_H_
