#include "ml/nn/metrics.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"

namespace shoal {
namespace {

// Returns the sum over the examples of the mean of each example's elements.
Output SumOfMeans(GraphBuilder& builder, Output elements) {
  if (!elements.valid()) return {};
  double per_example = 1;
  for (int d = 1; d < elements.shape().rank(); ++d) {
    per_example *= static_cast<double>(elements.shape().dim(d));
  }
  const Output sum = ops::ReduceSum(builder, elements);
  return per_example == 1 ? sum : ops::Scale(builder, sum, 1 / per_example);
}

bool ComparesClasses(LossKind loss) {
  return loss == LossKind::kSparseSoftmaxCrossEntropy || loss == LossKind::kSoftmaxCrossEntropy;
}

bool ComparesProbabilities(LossKind loss) {
  return ComparesClasses(loss) || loss == LossKind::kSigmoidCrossEntropy || loss == LossKind::kLog;
}

bool ComparesNumbers(LossKind loss) {
  return loss == LossKind::kMeanSquaredError || loss == LossKind::kAbsoluteDifference ||
         loss == LossKind::kHuber;
}

// Returns float32 labels, one per example.
Output FlatLabels(GraphBuilder& builder, Output labels) {
  if (!labels.valid()) return {};
  if (labels.dtype() != DataType::kFloat32) {
    labels = ops::Cast(builder, labels, DataType::kFloat32);
  }
  return labels.valid() && labels.shape().rank() == 1 ? labels
                                                      : ops::Reshape(builder, labels, {-1});
}

bool IsBinary(LossKind loss, const Shape& predictions) {
  const int64_t outputs = predictions.rank() == 1   ? 1
                          : predictions.rank() == 2 ? predictions.dim(1)
                                                    : 0;
  if (loss == LossKind::kSparseSoftmaxCrossEntropy) return outputs == 2;
  return outputs == 1 && (loss == LossKind::kSigmoidCrossEntropy || loss == LossKind::kLog);
}

bool IsOfBinaryClassifiers(MetricFunction function) {
  return function == MetricFunction::kAuc || function == MetricFunction::kCalibration;
}

}  // namespace

Output PositiveProbability(GraphBuilder& builder, LossKind kind, Output predictions) {
  if (!predictions.valid()) return {};
  if (kind == LossKind::kSparseSoftmaxCrossEntropy) {
    const std::vector<Output> logits = ops::Split(builder, predictions, 1, {1, 1});
    if (!builder.status().ok()) return {};
    predictions = ops::Sub(builder, logits[1], logits[0]);
  }
  if (kind != LossKind::kLog) predictions = builder.Op("Sigmoid", {predictions});
  return FlatLabels(builder, predictions);
}

ModelMetric AreaUnderCurveMetric(GraphBuilder& builder, LossKind kind, Output predictions,
                                 Output labels) {
  const auto scope = builder.WithNameScope("auc");
  ModelMetric metric;
  metric.name = "auc";
  metric.scores = PositiveProbability(builder, kind, predictions);
  metric.labels = FlatLabels(builder, labels);
  return metric;
}

ModelMetric Calibration(GraphBuilder& builder, LossKind kind, Output predictions, Output labels) {
  const auto scope = builder.WithNameScope("calibration");
  const Output probability = PositiveProbability(builder, kind, predictions);
  const Output positive = FlatLabels(builder, labels);
  if (!probability.valid() || !positive.valid()) return {};
  return {"calibration", ops::ReduceSum(builder, probability), ops::ReduceSum(builder, positive)};
}

ModelMetric TopAccuracy(GraphBuilder& builder, Output logits, Output labels, int64_t k) {
  const std::string name = absl::StrCat("top_", k, "_accuracy");
  const auto scope = builder.WithNameScope(name);
  return {name, builder.Op("CorrectCount", {logits, labels}, {{"k", k}}), {}};
}

ModelMetric MeanAbsoluteError(GraphBuilder& builder, Output predictions, Output targets) {
  const auto scope = builder.WithNameScope("mean_absolute_error");
  return {"mean_absolute_error",
          SumOfMeans(builder, builder.Op("AbsoluteDifference", {predictions, targets})),
          {}};
}

ModelMetric LogLoss(GraphBuilder& builder, LossKind kind, Output predictions, Output labels) {
  const auto scope = builder.WithNameScope("log_loss_metric");
  const char* const op = kind == LossKind::kSparseSoftmaxCrossEntropy ? "SparseSoftmaxCrossEntropy"
                         : kind == LossKind::kSoftmaxCrossEntropy     ? "SoftmaxCrossEntropy"
                         : kind == LossKind::kSigmoidCrossEntropy     ? "SigmoidCrossEntropy"
                                                                      : "LogLoss";
  return {"log_loss", SumOfMeans(builder, builder.Op(op, {predictions, labels})), {}};
}

absl::Status CheckMetricFits(absl::string_view name, const WantedMetric& metric, LossKind loss,
                             const Shape& predictions) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics: ", name, " ", why, "; drop it from the run's metrics"));
  };
  if (IsOfBinaryClassifiers(metric.function)) {
    if (IsBinary(loss, predictions)) return absl::OkStatus();
    return refused(
        absl::StrCat("needs a binary classifier, with one output and "
                     "sigmoid_cross_entropy or log_loss, or two outputs and "
                     "sparse_softmax_cross_entropy, but the model's loss is ",
                     LossName(loss), " and its outputs are ", predictions.ToString()));
  }
  const bool fits = metric.function == MetricFunction::kTopAccuracy
                        ? loss == LossKind::kSparseSoftmaxCrossEntropy
                    : metric.function == MetricFunction::kLogLoss ? ComparesProbabilities(loss)
                                                                  : ComparesNumbers(loss);
  if (!fits) {
    const char* const needs = metric.function == MetricFunction::kTopAccuracy
                                  ? "labels that are class numbers, with a softmax cross entropy"
                              : metric.function == MetricFunction::kLogLoss
                                  ? "a cross entropy or log_loss as the loss"
                                  : "mean_squared_error, absolute_difference or huber as the loss";
    return refused(absl::StrCat("needs ", needs, ", but the model's loss is ", LossName(loss)));
  }
  if (metric.function != MetricFunction::kTopAccuracy || predictions.rank() != 2 ||
      predictions.dim(1) > metric.k) {
    return absl::OkStatus();
  }
  return refused(
      absl::StrCat("is always 1, because the model has only ", predictions.dim(1), " outputs"));
}

ModelMetric MakeMetric(GraphBuilder& builder, const WantedMetric& metric, LossKind loss,
                       Output predictions, Output labels) {
  switch (metric.function) {
    case MetricFunction::kLogLoss:
      return LogLoss(builder, loss, predictions, labels);
    case MetricFunction::kMeanAbsoluteError:
      return MeanAbsoluteError(builder, predictions, labels);
    case MetricFunction::kTopAccuracy:
      return TopAccuracy(builder, predictions, labels, metric.k);
    case MetricFunction::kAuc:
      return AreaUnderCurveMetric(builder, loss, predictions, labels);
    case MetricFunction::kCalibration:
      return Calibration(builder, loss, predictions, labels);
  }
  return {};
}

}  // namespace shoal
