#include "ml/data/idx_dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/data/byte_images.h"
#include "ml/data/data_rules.h"
#include "ml/data/idx_file.h"

namespace shoal {
namespace {

absl::Status CheckLabels(const IdxDatasetOptions& options, const IdxFile& labels) {
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= options.num_classes) {
      return absl::DataLossError(absl::StrCat(
          options.labels_path, ": label ", i, " is ", static_cast<int>(labels.bytes[i]), ": ",
          WantedClass(options.num_classes, options.rules, "; correct it or set data.classes")));
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
  ByteImages data;
  data.size = {images.dims[1], images.dims[2], 1};
  data.planes = std::move(images.bytes);
  data.labels.assign(labels.bytes.begin(), labels.bytes.end());
  data.num_classes = options.num_classes;
  return NewByteImageDataset(std::move(data), options.image);
}

}  // namespace shoal
