#ifndef SHOAL_ML_DATA_IDX_DATASET_H_
#define SHOAL_ML_DATA_IDX_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/data/dataset.h"
#include "ml/data/image_target.h"

namespace shoal {

struct IdxDatasetOptions {
  std::string images_path;  // IDX, gzipped or not: [examples, height, width] unsigned bytes
  std::string labels_path;  // [examples] unsigned bytes
  int num_classes = 10;
  ImageTargetOptions image;
  int64_t max_examples = 0;  // the number of examples to use, from the first; 0: all
  DataRules rules;
};

// Reads all images of files like MNIST's into memory as bytes. Fields: "input" float32 [1, height,
// width], each byte divided by 255, resized and converted if options.image asks for it; "label"
// int32, checked to be in [0, num_classes). Errors name the file and the field.
absl::StatusOr<std::unique_ptr<Dataset>> LoadIdxDataset(const IdxDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDX_DATASET_H_
