#include "ml/nn/loss_names.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr NamedLoss kLosses[] = {
    {LossKind::kSparseSoftmaxCrossEntropy, "sparse_softmax_cross_entropy",
     "SparseSoftmaxCrossEntropy"},
    {LossKind::kSoftmaxCrossEntropy, "softmax_cross_entropy", "SoftmaxCrossEntropy"},
    {LossKind::kSigmoidCrossEntropy, "sigmoid_cross_entropy", "SigmoidCrossEntropy"},
    {LossKind::kLog, "log_loss", "LogLoss"},
    {LossKind::kMeanSquaredError, "mean_squared_error", "MeanSquaredError"},
    {LossKind::kAbsoluteDifference, "absolute_difference", "AbsoluteDifference"},
    {LossKind::kHinge, "hinge", "Hinge"},
    {LossKind::kHuber, "huber", "Huber"},
    {LossKind::kCosineDistance, "cosine_distance", ""},
};

}  // namespace

absl::Span<const NamedLoss> Losses() { return kLosses; }

absl::StatusOr<LossKind> ParseLossKind(absl::string_view name) {
  std::string known;
  for (const NamedLoss& loss : kLosses) {
    if (name == loss.name) return loss.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", loss.name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model.loss: unknown loss '", name, "'; known are ", known));
}

absl::string_view LossName(LossKind kind) {
  for (const NamedLoss& loss : kLosses) {
    if (loss.kind == kind) return loss.name;
  }
  return "unknown";
}

}  // namespace shoal
