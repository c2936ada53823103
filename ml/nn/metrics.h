// Metrics of one clone, for ModelOutputs::metrics. Each has the weight 1 for each example, except
// for auc and calibration.
#ifndef SHOAL_ML_NN_METRICS_H_
#define SHOAL_ML_NN_METRICS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/losses.h"
#include "ml/nn/metric_names.h"
#include "ml/nn/model.h"

namespace shoal {

// "top_K_accuracy": counts the rows of `logits` whose label is among the K largest elements.
ModelMetric TopAccuracy(GraphBuilder& builder, Output logits, Output labels, int64_t k);

// "mean_absolute_error" of predictions and targets of one shape, [batch, ...].
ModelMetric MeanAbsoluteError(GraphBuilder& builder, Output predictions, Output targets);

// "log_loss" of the predictions that a loss of this kind compares with the labels: logits or, for
// kLog, probabilities. Label smoothing does not count. Not valid for other kinds of losses.
ModelMetric LogLoss(GraphBuilder& builder, LossKind kind, Output predictions, Output labels);

// Returns the probability of the label 1 for each example, [batch]. The model is a binary
// classifier with this loss: it has one output, or two with a softmax cross entropy.
Output PositiveProbability(GraphBuilder& builder, LossKind kind, Output predictions);

// "auc" of such a classifier: the probability that an example with the label 1 has a higher score
// than one with the label 0. `labels` are 0 or 1, [batch] or [batch, 1].
ModelMetric AreaUnderCurveMetric(GraphBuilder& builder, LossKind kind, Output predictions,
                                 Output labels);

// "calibration" of such a classifier: the mean probability of the label 1, divided by the share of
// such labels. It is 1 for a model whose probabilities are right on average.
ModelMetric Calibration(GraphBuilder& builder, LossKind kind, Output predictions, Output labels);

// Returns why a model with this loss and these predictions cannot have the metric.
absl::Status CheckMetricFits(absl::string_view name, const WantedMetric& metric, LossKind loss,
                             const Shape& predictions);

// Adds the metric, which must fit.
ModelMetric MakeMetric(GraphBuilder& builder, const WantedMetric& metric, LossKind loss,
                       Output predictions, Output labels);

}  // namespace shoal

#endif  // SHOAL_ML_NN_METRICS_H_
