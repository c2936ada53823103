#ifndef SHOAL_ML_DATA_TF_RECORD_DATASET_H_
#define SHOAL_ML_DATA_TF_RECORD_DATASET_H_

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

struct TfRecordDatasetOptions {
  std::vector<std::string> paths;  // read as one sequence of records
  std::string input = "image/encoded";
  std::string label = "image/class/label";
  ImageTargetOptions image;
  int64_t num_classes = 10;
  int64_t max_examples = 0;  // the number of examples to use, from the first; 0: all
  bool has_label = true;     // false: all labels are 0
  std::vector<IdColumn> ids;
  std::vector<std::string> numbers;  // the features that are the input, if there are ids
  DataRules rules;
};

// Opens a data set of TFRecord files with tf.Example records. Opening finds the position of every
// record; a record is read, checked and decoded when it is needed. The first record decides the
// types and sizes of the features. The input is one byte string, a PNG or JPEG or raw pixels
// [height, width, channels] of the given size ("input" float32 [channels, height, width] in [0,
// 1]), or floats ("input" float32 [count]). The label is one integer ("label" int32 in [0,
// num_classes)) or floats ("target" float32 [count]). With ids, the input is the values of all
// features `numbers`, if there are any, and each column of ids is a ragged field behind the label.
// options.rules are checked when a record is read. Errors name the file, the record and the
// feature: NotFound, DataLoss, InvalidArgument (no such feature).
absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(const TfRecordDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_TF_RECORD_DATASET_H_
