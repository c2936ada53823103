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

// CIFAR-10: label, 3072 bytes. CIFAR-100: coarse label, fine label (which is used), 3072 bytes.
enum class CifarKind { kCifar10, kCifar100 };

struct CifarDatasetOptions {
  CifarKind kind = CifarKind::kCifar10;
  std::vector<std::string> paths;  // files of the binary version, read one after the other
  // File with the names of the classes, a line each. One that is missing, or has another number of
  // lines, names none.
  std::string class_names_path;
  ImageTargetOptions image;
  int64_t max_examples = 0;  // 0: all; else only the first so many
};

// Reads 32 x 32 colour images whole into memory, as bytes: red, green and blue planes. Fields:
// "input" float32 [3, 32, 32], "label" int32. Errors name the file and the record: NotFound,
// DataLoss (truncated, label out of range).
absl::StatusOr<std::unique_ptr<Dataset>> LoadCifarDataset(const CifarDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CIFAR_DATASET_H_
