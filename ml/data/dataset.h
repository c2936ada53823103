#ifndef SHOAL_ML_DATA_DATASET_H_
#define SHOAL_ML_DATA_DATASET_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/data/ragged_rows.h"
#include "ml/tensor/tensor_spec.h"

namespace shoal {

// A dense field has one tensor of the same shape in every example. A ragged field has any number of
// int64 keys in each example: a categorical value that may be missing or multiple. Readers hash
// strings to keys; the 64 bits of a key are those of an unsigned number.
enum class FieldKind { kDense, kRagged, kWeightedRagged };  // weighted: one float for each key

// Describes a field of every example: its name and, if it is dense, its type and shape in a single
// example, without the batch dimension.
struct FieldSpec {
  std::string name;
  TensorSpec example;  // a ragged field's is that of one key, int64[]
  FieldKind kind = FieldKind::kDense;
  bool is_target = false;  // true: the model learns to predict the field; see IsTarget

  bool is_ragged() const { return kind != FieldKind::kDense; }
};

// Describes a ragged field.
inline FieldSpec RaggedField(std::string name, FieldKind kind = FieldKind::kRagged) {
  return {std::move(name), {DataType::kInt64, {}}, kind};
}

// Names of fields that the built-in data sets use.
inline constexpr char kInputField[] = "input";
inline constexpr char kLabelField[] = "label";    // int32, a class
inline constexpr char kTargetField[] = "target";  // float32, a regression's target

// Returns whether the field is what the model learns to predict: it says so, or it is named
// kLabelField or kTargetField.
inline bool IsTarget(const FieldSpec& field) {
  return field.is_target || field.name == kLabelField || field.name == kTargetField;
}

// A fixed, ordered set of examples, addressed by index. Immutable, so any number of threads may
// read it at once. BatchPlan decides about shuffling and batches.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<FieldSpec>& fields() const = 0;

  // Returns a hash of the fields, the size and the content, which distinguishes data sets.
  virtual uint64_t fingerprint() const = 0;

  // Returns the number of classes: labels are in [0, num_classes()). 0: the data set has no labels
  // or does not know their range.
  virtual int64_t num_classes() const { return 0; }

  // Returns the names of the classes in the order of the labels; empty if the classes have no
  // names.
  virtual std::vector<std::string> class_names() const { return {}; }

  // Returns the path of the example's file; empty if it is not a separate file.
  virtual std::string example_name(int64_t /*index*/) const { return ""; }

  // Returns a line for the user about the data, such as the best possible result; empty: there is
  // nothing to say. It may read all examples.
  virtual std::string notice() const { return ""; }

  // Returns true if FillBatch decodes or waits for a disk, so that several threads should share the
  // work for one batch.
  virtual bool is_costly() const { return false; }

  // Writes the examples with these indices (each in [0, size())) in the given order. If field f is
  // dense, outputs[f] receives it as a dense tensor of indices.size() rows. If it is ragged,
  // outputs[f] is a RaggedRows*, to which one example is added for each index; RaggedOutput casts
  // it. An example depends only on its index and, with random augmentation, on the epoch, so a
  // batch that is computed again has the same bytes.
  // Data sets in memory allocate nothing here. Errors name the file and the remedy.
  virtual absl::Status FillBatch(uint32_t epoch, absl::Span<const int64_t> indices,
                                 absl::Span<void* const> outputs) const = 0;
};

// Returns the output of a ragged field of FillBatch.
inline RaggedRows& RaggedOutput(void* output) { return *static_cast<RaggedRows*>(output); }

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_H_
