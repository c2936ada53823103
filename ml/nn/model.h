// A model as a function that builds one clone of it.
#ifndef SHOAL_ML_NN_MODEL_H_
#define SHOAL_ML_NN_MODEL_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/graph/graph_builder.h"

namespace shoal {

// The fields of a data set as placeholders, one set per Dequeue: each clone takes its own part of
// the batch from the queue. Each run supplies their bytes.
class InputQueue {
 public:
  explicit InputQueue(std::vector<FieldSpec> fields) : fields_(std::move(fields)) {}

  // One placeholder [batch, ...] per field, "batch/<field>" in the builder's name scope.
  std::vector<Output> Dequeue(GraphBuilder& builder);

  const std::vector<FieldSpec>& fields() const { return fields_; }
  // The dequeued batches, in order: [clone][field].
  const std::vector<std::vector<Output>>& batches() const { return batches_; }

 private:
  std::vector<FieldSpec> fields_;
  std::vector<std::vector<Output>> batches_;
};

struct ModelOutputs {
  Output predictions;    // logits or values, [batch, ...]
  Output loss;           // mean over the batch, without regularization; also in kLosses
  Output correct_count;  // scalar float32; not valid for a regression
};

// Builds the model on one batch (placeholders in the order of the data set's fields). With
// is_training false, moving averages are used instead of the batch's moments.
using ModelFunction = std::function<ModelOutputs(GraphBuilder& builder,
                                                 absl::Span<const Output> batch, bool is_training)>;

}  // namespace shoal

#endif  // SHOAL_ML_NN_MODEL_H_
