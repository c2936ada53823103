#ifndef SHOAL_ML_DATA_CRITEO_DATASET_H_
#define SHOAL_ML_DATA_CRITEO_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

struct CriteoOptions {
  std::string path;          // plain, or compressed with gzip or zstd
  int64_t max_examples = 0;  // 0: all
  bool has_label = true;     // false: lines lack the first column, and all labels are 0
};

// Reads click logs in the format of Criteo's data sets into memory, 272 bytes for each example. A
// line has 40 columns, separated by tabs: 0 or 1, 13 integers, 26 texts. The fields are
//   input  float32 [13], log(1 + x) of the integers; 0 if x is missing or negative
//   c1 to c26  ragged, XXH3-64 of the text; no key if it is missing
//   label  int32, 1 for a click
// Errors name file, line and column.
absl::StatusOr<std::unique_ptr<Dataset>> LoadCriteo(const CriteoOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CRITEO_DATASET_H_
