// The options of the readers of files that follow from a run file.
#ifndef SHOAL_ML_DATA_DATASET_OPTIONS_H_
#define SHOAL_ML_DATA_DATASET_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/csv_dataset.h"
#include "ml/data/data_rules.h"
#include "ml/data/image_target.h"
#include "ml/data/npy_dataset.h"
#include "ml/data/tf_record_dataset.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {

// The number of classes if neither the run file nor the data set has one.
constexpr int64_t kDefaultClasses = 10;

// Returns the number of classes of the run file, or the default; at most 2 if the model's loss is
// for two classes.
int64_t ClassesOf(const v1::DataConfig& config, const DataRules& rules);

// Returns the height, the width and the channels that images are converted to.
ImageTargetOptions ImageTargetFrom(const v1::ImageOptions& image);

// Each returns the options for the examples of a split, "train" or "test", in config.directory().
// NotFound or FailedPrecondition: the split has no file, or one in several compressions.
// Unavailable: the file system cannot show its files now.
absl::StatusOr<CsvDatasetOptions> CsvSplit(const v1::DataConfig& config, const std::string& split,
                                           const DataRules& rules);
absl::StatusOr<NpyDatasetOptions> NpySplit(const v1::DataConfig& config, const std::string& split,
                                           const DataRules& rules);
absl::StatusOr<TfRecordDatasetOptions> TfRecordSplit(const v1::DataConfig& config,
                                                     const std::string& split,
                                                     const DataRules& rules);

// Each returns the options for the examples, without labels, of the file at `path` (the command
// predict reads such files). If the run has columns of ids in arrays, there is one file for each
// array: COLUMN_NAME.npy for each column, and x_NAME.npy for the numbers. `path` may be any of
// them; the others are found by the same NAME. InvalidArgument: the file has another name.
CsvDatasetOptions CsvInputs(const v1::DataConfig& config, const std::string& path,
                            const DataRules& rules);
absl::StatusOr<NpyDatasetOptions> NpyInputs(const v1::DataConfig& config, const std::string& path,
                                            const DataRules& rules);
TfRecordDatasetOptions TfRecordInputs(const v1::DataConfig& config, const std::string& path,
                                      const DataRules& rules);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_OPTIONS_H_
