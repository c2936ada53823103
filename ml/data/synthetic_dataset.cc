#include "ml/data/synthetic_dataset.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

// Purposes of random keys.
constexpr uint64_t kNoise = 1;
constexpr uint64_t kCenters = 2;

constexpr int64_t kMostElements = int64_t{1} << 32;

absl::Status Positive(const char* field, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("synthetic data field ", field, " is ", value, ": it must be >= 1"));
}

absl::Status Validate(const SyntheticOptions& options) {
  RETURN_IF_ERROR(Positive("examples", options.examples));
  RETURN_IF_ERROR(Positive("features", options.features));
  if (options.features > kMostElements / options.examples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "synthetic data: examples ", options.examples, " x features ", options.features,
        " are too many for memory: their product must be at most ", kMostElements));
  }
  return absl::OkStatus();
}

void FillNoise(const SyntheticOptions& options, Tensor& inputs) {
  const uint64_t first = options.first_example * static_cast<uint64_t>(options.features);
  FillUniform(DeriveKey(options.seed, kNoise), first, inputs.mutable_span<float>());
}

absl::StatusOr<std::unique_ptr<Dataset>> DatasetOf(std::vector<InMemoryDataset::Field> fields) {
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, InMemoryDataset::Create(std::move(fields)));
  return dataset;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticRegression(const SyntheticOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  const int64_t columns = options.target_columns == 0 ? options.features : options.target_columns;
  if (columns < 1 || columns > options.features) {
    return absl::InvalidArgumentError(
        absl::StrCat("synthetic data field target_columns is ", columns,
                     ": it must be in [1, features], features being ", options.features));
  }
  Tensor inputs(DataType::kFloat32, {options.examples, options.features});
  Tensor targets(DataType::kFloat32, {options.examples, columns});
  FillNoise(options, inputs);
  const float* x = inputs.span<float>().data();
  float* y = targets.mutable_span<float>().data();
  for (int64_t i = 0; i < options.examples; ++i) {
    for (int64_t j = 0; j < columns; ++j) *y++ = 2 * x[i * options.features + j] + 1;
  }
  return DatasetOf({{kInputField, inputs}, {kTargetField, targets}});
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticClassification(
    const SyntheticOptions& options) {
  RETURN_IF_ERROR(Validate(options));
  RETURN_IF_ERROR(Positive("classes", options.classes));
  const int64_t n = options.features;
  std::vector<float> center(static_cast<size_t>(n));
  Tensor inputs(DataType::kFloat32, {options.examples, n});
  Tensor labels(DataType::kInt32, {options.examples});
  FillNoise(options, inputs);
  for (int64_t label = 0; label < options.classes; ++label) {
    FillUniform(DeriveKey(options.seed, kCenters), static_cast<uint64_t>(label * n),
                absl::MakeSpan(center));
    for (int64_t i = label; i < options.examples; i += options.classes) {
      float* x = inputs.mutable_span<float>().data() + i * n;
      for (int64_t j = 0; j < n; ++j) x[j] = x[j] - 0.5f + center[static_cast<size_t>(j)];
      labels.mutable_span<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(label);
    }
  }
  return DatasetOf({{kInputField, inputs}, {kLabelField, labels}});
}

}  // namespace shoal
