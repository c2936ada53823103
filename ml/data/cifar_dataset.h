#ifndef SHOAL_ML_DATA_CIFAR_DATASET_H_
#define SHOAL_ML_DATA_CIFAR_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"
#include "ml/data/image_target.h"

namespace shoal {

// The format of a record. CIFAR-10: a label byte, then 3072 image bytes. CIFAR-100: a coarse label,
// a fine label, then 3072 image bytes; the fine label is used.
enum class CifarKind { kCifar10, kCifar100 };

struct CifarDatasetOptions {
  CifarKind kind = CifarKind::kCifar10;
  std::vector<std::string> paths;  // files of the binary version, read one after the other
  // The file with the names of the classes, one per line. If it is missing or does not have one
  // line per class, the classes have no names.
  std::string class_names_path;
  ImageTargetOptions image;
  int64_t max_examples = 0;  // the number of examples to use, from the first; 0: all
};

// Reads all images (32 x 32, with red, green and blue planes) into memory as bytes. Fields: "input"
// float32 [3, 32, 32], "label" int32. Errors name the file and the record: NotFound, DataLoss
// (truncated, label out of range).
absl::StatusOr<std::unique_ptr<Dataset>> LoadCifarDataset(const CifarDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CIFAR_DATASET_H_
