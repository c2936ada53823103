// The options of the readers of files that follow from a run file.
#ifndef SHOAL_ML_DATA_DATASET_OPTIONS_H_
#define SHOAL_ML_DATA_DATASET_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/csv_dataset.h"
#include "ml/data/image_target.h"
#include "ml/data/npy_dataset.h"
#include "ml/data/tf_record_dataset.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {

// The number of classes if neither the run file nor the data set has one.
constexpr int64_t kDefaultClasses = 10;

// Returns the number of classes of the run file, or the default.
int64_t ClassesOf(const v1::DataConfig& config);

// Returns what becomes of images.
ImageTargetOptions ImageTargetFrom(const v1::ImageOptions& image);

// Each returns the options for the examples of a split, "train" or "test", in config.directory().
// NotFound or FailedPrecondition: the split has no file, or one in several compressions.
absl::StatusOr<CsvDatasetOptions> CsvSplit(const v1::DataConfig& config, const std::string& split);
NpyDatasetOptions NpySplit(const v1::DataConfig& config, const std::string& split);
absl::StatusOr<TfRecordDatasetOptions> TfRecordSplit(const v1::DataConfig& config,
                                                     const std::string& split);

// Each returns the options for examples without labels in one file. That of ids in arrays may be
// any of them: its name is that of a column, or x, then _NAME.npy, and those of the other arrays
// end in the same NAME. InvalidArgument: it has another name.
CsvDatasetOptions CsvInputs(const v1::DataConfig& config, const std::string& path);
absl::StatusOr<NpyDatasetOptions> NpyInputs(const v1::DataConfig& config, const std::string& path);
TfRecordDatasetOptions TfRecordInputs(const v1::DataConfig& config, const std::string& path);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_OPTIONS_H_
