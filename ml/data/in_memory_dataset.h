#ifndef SHOAL_ML_DATA_IN_MEMORY_DATASET_H_
#define SHOAL_ML_DATA_IN_MEMORY_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/data/ragged_rows.h"
#include "ml/tensor/tensor.h"

namespace shoal {

// A data set whose examples are in memory: rows of tensors and lists of keys.
class InMemoryDataset final : public Dataset {
 public:
  struct Field {
    std::string name;
    Tensor rows;                                      // a dense field: [size, ...example shape]
    std::optional<RaggedRows> ragged = std::nullopt;  // the examples of a ragged field
    bool is_target = false;
  };

  // InvalidArgument if there is no field, a dense field is a scalar, two fields have the same name,
  // or the numbers of examples differ.
  static absl::StatusOr<std::unique_ptr<InMemoryDataset>> Create(
      std::vector<Field> fields, std::vector<std::string> class_names = {});

  int64_t size() const override { return size_; }
  const std::vector<FieldSpec>& fields() const override { return specs_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t num_classes() const override { return static_cast<int64_t>(class_names_.size()); }
  std::vector<std::string> class_names() const override { return class_names_; }
  absl::Status FillBatch(uint32_t epoch, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override;

 private:
  InMemoryDataset(std::vector<Field> fields, std::vector<std::string> class_names);

  const std::vector<Field> fields_;
  const std::vector<std::string> class_names_;
  const int64_t size_;
  std::vector<FieldSpec> specs_;
  uint64_t fingerprint_;
};

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IN_MEMORY_DATASET_H_
