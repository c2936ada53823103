// A model is a function that builds one clone of it.
#ifndef SHOAL_ML_NN_MODEL_H_
#define SHOAL_ML_NN_MODEL_H_

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/data/dataset.h"
#include "ml/graph/graph_builder.h"

namespace shoal {

// A placeholder of a batch: a whole dense field or a part of a ragged one.
struct BatchInput {
  enum class Part { kDense, kKeys, kOffsets, kWeights };

  size_t field = 0;  // index of the field
  Part part = Part::kDense;
};

// Returns the placeholders of a batch: one for each dense field; keys, offsets and, if it has any,
// weights for each ragged field; in the order of the fields. If no field is ragged, there is one
// for each field.
std::vector<BatchInput> BatchInputs(const std::vector<FieldSpec>& fields);

// The placeholders of one field.
struct FieldPlaceholders {
  Output values;   // a dense field, [batch, ...]
  Output keys;     // int64 [capacity]: the keys of all examples, then keys without meaning
  Output offsets;  // int64 [batch + 1]: example i has keys offsets[i] to offsets[i + 1] - 1
  Output weights;  // float32 [capacity]; only of fields with weights
};

// Returns the placeholders of the field with this name among those of a batch. If there is no such
// field, all four outputs are invalid.
FieldPlaceholders FindField(const std::vector<FieldSpec>& fields, absl::Span<const Output> batch,
                            absl::string_view name);

// Returns the index of the first target, which a model of the run file learns to predict;
// fields.size() if there is none.
size_t FirstTarget(const std::vector<FieldSpec>& fields);

// Returns all fields except the targets, in their order.
std::vector<FieldSpec> InputFields(const std::vector<FieldSpec>& fields);

// Adds the fields of a data set to a graph as placeholders. It is named after TF-Slim's
// prefetch queue, but queues nothing. Each clone calls Dequeue once and gets placeholders
// for its own part of the batch; the runs of the compiled graph supply their bytes.
class InputQueue {
 public:
  explicit InputQueue(std::vector<FieldSpec> fields) : fields_(std::move(fields)) {}

  // Adds the placeholders of BatchInputs and returns them in that order. A dense field is named
  // "batch/<field>" in the builder's name scope; the parts of a ragged field are
  // "batch/<field>/keys", "/offsets" and "/weights".
  std::vector<Output> Dequeue(GraphBuilder& builder);

  const std::vector<FieldSpec>& fields() const { return fields_; }
  // Returns the placeholders of all calls of Dequeue, in order: [clone][BatchInputs].
  const std::vector<std::vector<Output>>& batches() const { return batches_; }

 private:
  std::vector<FieldSpec> fields_;
  std::vector<std::vector<Output>> batches_;
};

// A metric beside loss and accuracy: its value is the quotient of sum and weight, both summed over
// the clones and batches of a step, or over the whole test split.
struct ModelMetric {
  std::string name;  // 1 to 64 of A-Z a-z 0-9 _ . / -
  Output sum;        // scalar float32
  Output weight;     // scalar float32; not valid: the number of examples
  // Instead of a sum, for the area under the curve of a binary classifier: a score in [0, 1] and a
  // label, 0 or 1, of each example; float32 [batch].
  Output scores = {};
  Output labels = {};
};

struct ModelOutputs {
  Output predictions;  // logits or values, [batch, ...]
  // Mean over the batch, without regularization; also in the graph's collection kLosses.
  Output loss;
  Output correct_count;  // scalar float32; not valid for a regression
  // There are at most 16, the same ones in training and evaluation.
  std::vector<ModelMetric> metrics;
};

// Builds one clone of the model. `batch` has the placeholders as InputQueue::Dequeue returns them:
// in the order of the data set's fields. If is_training is false, batch norm uses moving averages
// instead of the batch's moments.
using ModelFunction = std::function<ModelOutputs(GraphBuilder& builder,
                                                 absl::Span<const Output> batch, bool is_training)>;

}  // namespace shoal

#endif  // SHOAL_ML_NN_MODEL_H_
