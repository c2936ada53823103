#ifndef SHOAL_ML_DATA_DATASET_H_
#define SHOAL_ML_DATA_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/tensor/tensor_spec.h"

namespace shoal {

// One value of every example: its name, and element type and shape of a single example.
struct FieldSpec {
  std::string name;
  TensorSpec example;
};

// Names of fields that the built-in data sets use.
inline constexpr char kInputField[] = "input";
inline constexpr char kLabelField[] = "label";    // int32, a class
inline constexpr char kTargetField[] = "target";  // float32, a regression's target

// A fixed, ordered set of examples, addressed by index. Immutable, so any number of threads may
// read at once. Order, shuffling and batches are not its business: see BatchPlan.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  virtual const std::vector<FieldSpec>& fields() const = 0;

  // Tells data sets apart: of the fields, the size and the content.
  virtual uint64_t fingerprint() const = 0;

  // Labels are in [0, num_classes()); 0: it has no labels, or does not know.
  virtual int64_t num_classes() const { return 0; }

  // Returns the names of the classes in the order of the labels; empty if they have none.
  virtual std::vector<std::string> class_names() const { return {}; }

  // Returns the path of the example's file; empty if it is not a separate file.
  virtual std::string example_name(int64_t /*index*/) const { return ""; }

  // FillBatch decodes or waits for a disk, so that several threads should share a batch.
  virtual bool is_costly() const { return false; }

  // Writes the examples of `indices` (each in [0, size())) one after the other: field f goes to
  // outputs[f], as a tensor of indices.size() rows. What a row holds depends on its index and, with
  // random augmentation, on the epoch, and on nothing else: who computes a batch again gets the
  // same bytes. Data sets in memory allocate nothing. Errors name the file and the remedy.
  virtual absl::Status FillBatch(uint32_t epoch, absl::Span<const int64_t> indices,
                                 absl::Span<void* const> outputs) const = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_H_
