#include "ml/nn/metrics.h"

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

}  // namespace

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
  }
  return {};
}

}  // namespace shoal
