#include "ml/data/idx_dataset.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/status_macros.h"
#include "ml/data/idx_file.h"

namespace shoal {
namespace {

uint64_t FingerprintOf(const std::vector<uint8_t>& bytes) {
  return Fingerprint64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

class IdxDataset final : public Dataset {
 public:
  IdxDataset(IdxFile images, IdxFile labels, int64_t num_classes)
      : size_(images.dims[0]),
        num_classes_(num_classes),
        image_bytes_(static_cast<size_t>(images.dims[1] * images.dims[2])),
        fields_({{kInputField, {DataType::kFloat32, {1, images.dims[1], images.dims[2]}}},
                 {kLabelField, {DataType::kInt32, {}}}}),
        images_(std::move(images.bytes)),
        labels_(std::move(labels.bytes)),
        fingerprint_(CombineFingerprints(
            CombineFingerprints(FingerprintOf(images_), FingerprintOf(labels_)), image_bytes_)) {
    for (size_t byte = 0; byte < values_.size(); ++byte) {
      values_[byte] = static_cast<float>(byte) / 255.0f;
    }
  }

  int64_t size() const override { return size_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  int64_t num_classes() const override { return num_classes_; }

  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    float* pixels = static_cast<float*>(outputs[0]);
    int32_t* labels = static_cast<int32_t*>(outputs[1]);
    for (int64_t index : indices) {
      const uint8_t* image = &images_[static_cast<size_t>(index) * image_bytes_];
      for (size_t i = 0; i < image_bytes_; ++i) pixels[i] = values_[image[i]];
      pixels += image_bytes_;
      *labels++ = labels_[static_cast<size_t>(index)];
    }
    return absl::OkStatus();
  }

 private:
  const int64_t size_;
  const int64_t num_classes_;
  const size_t image_bytes_;
  const std::vector<FieldSpec> fields_;
  const std::vector<uint8_t> images_;
  const std::vector<uint8_t> labels_;
  const uint64_t fingerprint_;
  std::array<float, 256> values_;  // of a byte
};

absl::Status CheckLabels(const IdxDatasetOptions& options, const IdxFile& labels) {
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= options.num_classes) {
      return absl::DataLossError(absl::StrCat(
          options.labels_path, ": label ", i, " is ", static_cast<int>(labels.bytes[i]),
          ": it must be below the number of classes, ", options.num_classes));
    }
  }
  return absl::OkStatus();
}

void KeepFirst(int64_t examples, IdxFile& file) {
  const int64_t example_bytes = static_cast<int64_t>(file.bytes.size()) / file.dims[0];
  file.dims[0] = std::min(file.dims[0], examples);
  file.bytes.resize(static_cast<size_t>(file.dims[0] * example_bytes));
  file.bytes.shrink_to_fit();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> LoadIdxDataset(const IdxDatasetOptions& options) {
  if (options.num_classes < 1 || options.max_examples < 0) {
    return absl::InvalidArgumentError(absl::StrCat("IDX data: num_classes is ", options.num_classes,
                                                   " and max_examples is ", options.max_examples,
                                                   ": they must be >= 1 and >= 0"));
  }
  ASSIGN_OR_RETURN(IdxFile images, ReadIdxFile(options.images_path, 3));
  ASSIGN_OR_RETURN(IdxFile labels, ReadIdxFile(options.labels_path, 1));
  if (images.dims[0] != labels.dims[0]) {
    return absl::DataLossError(absl::StrCat(options.images_path, " has ", images.dims[0],
                                            " images, ", options.labels_path, " has ",
                                            labels.dims[0], " labels: they must be as many"));
  }
  RETURN_IF_ERROR(CheckLabels(options, labels));
  if (options.max_examples > 0) {
    KeepFirst(options.max_examples, images);
    KeepFirst(options.max_examples, labels);
  }
  return {std::make_unique<IdxDataset>(std::move(images), std::move(labels), options.num_classes)};
}

}  // namespace shoal
