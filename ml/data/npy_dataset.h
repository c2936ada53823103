#ifndef SHOAL_ML_DATA_NPY_DATASET_H_
#define SHOAL_ML_DATA_NPY_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/data/dataset.h"
#include "ml/data/ids/id_column.h"
#include "ml/data/image_target.h"

namespace shoal {

struct NpyDatasetOptions {
  std::string inputs_path;   // empty: there is none, only ids
  std::string labels_path;   // empty: all labels are 0
  ImageTargetOptions image;  // used if the inputs are unsigned bytes
  int64_t num_classes = 10;
  int64_t max_examples = 0;          // the number of examples to use, from the first; 0: all
  std::vector<IdColumn> ids;         // the columns of ids
  std::string ids_directory, split;  // see NpyPath
  DataRules rules;
};

// Reads two arrays with the same first dimension into memory. Inputs: float32 or float64 [examples,
// ...], kept as they are; or unsigned bytes, which are images [examples, height, width], [examples,
// height, width, 1 or 3] or [examples, 1 or 3, height, width] and are divided by 255. Labels:
// integers [examples] in [0, num_classes) become the field "label" int32; floating-point numbers
// [examples] or [examples, columns] become "target" float32. Ids become a ragged field for each
// column, behind these (see ReadNpyIds); images cannot stand beside them. options.rules are
// checked. Errors name the file, the row and the remedy.
absl::StatusOr<std::unique_ptr<Dataset>> LoadNpyDataset(const NpyDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_NPY_DATASET_H_
