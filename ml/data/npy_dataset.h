#ifndef SHOAL_ML_DATA_NPY_DATASET_H_
#define SHOAL_ML_DATA_NPY_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/data/image_target.h"

namespace shoal {

struct NpyDatasetOptions {
  std::string inputs_path;
  std::string labels_path;   // empty: inputs alone, all labels are 0
  ImageTargetOptions image;  // for inputs of unsigned bytes
  int64_t num_classes = 10;
  int64_t max_examples = 0;  // 0: all; else only the first so many
};

// Two arrays with the same first dimension, read whole into memory. Inputs: float32 or float64
// [examples, ...], kept as they are; or unsigned bytes, images [examples, height, width],
// [examples, height, width, 1 or 3] or [examples, 1 or 3, height, width], divided by 255. Labels:
// integers [examples] in [0, num_classes), "label" int32; or floating [examples] or
// [examples, columns], "target" float32. Errors name the file, the row and the remedy.
absl::StatusOr<std::unique_ptr<Dataset>> LoadNpyDataset(const NpyDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_NPY_DATASET_H_
