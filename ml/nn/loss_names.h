// The losses that a run file can name, without the code that builds graphs.
#ifndef SHOAL_ML_NN_LOSS_NAMES_H_
#define SHOAL_ML_NN_LOSS_NAMES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

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

struct NamedLoss {
  LossKind kind;
  const char* name;  // The word in a run file.
  const char* op;    // The op that computes it for each example; "" if several ops do.
};

// Returns all losses, in the order in which messages and help list them.
absl::Span<const NamedLoss> Losses();

// Parses a name of ModelConfig.loss, such as "sparse_softmax_cross_entropy". InvalidArgument lists
// all names.
absl::StatusOr<LossKind> ParseLossKind(absl::string_view name);
absl::string_view LossName(LossKind kind);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LOSS_NAMES_H_
