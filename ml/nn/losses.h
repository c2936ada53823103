// Losses. Each function Add...Loss computes a scalar, the mean over the batch, adds it to the
// collection kLosses and returns it.
#ifndef SHOAL_ML_NN_LOSSES_H_
#define SHOAL_ML_NN_LOSSES_H_

#include "ml/graph/graph_builder.h"
#include "ml/nn/loss_names.h"

namespace shoal {

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
