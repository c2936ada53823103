#ifndef SHOAL_ML_DATA_DATASET_FACTORY_H_
#define SHOAL_ML_DATA_DATASET_FACTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/data/dataset.h"

namespace shoal {

namespace v1 {
class DataConfig;
}

enum class DataSplit { kTrain, kTest };

// Makes the data set that a run file describes. Images are resized, cropped and normalised as the
// run file asks; the training split also has its random augmentation. `seed` determines the
// augmentation and synthetic data, whose training and test splits have different examples. Unset
// fields have their defaults (ml/data/data_defaults.h). Values that break `rules` are an error of
// this function or, if the examples stay on the disk, of reading them. Errors name the file, or the
// field of the run file, and the remedy; NotFound if the split does not exist.
absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const v1::DataConfig& given, DataSplit split,
                                                     uint64_t seed, const DataRules& rules = {});

// Returns whether the data has a test split, complete or not. Returns NotFound if it has none but
// the run file asks for test examples.
absl::StatusOr<bool> HasTestSplit(const v1::DataConfig& given);

// Returns whether the name is that of a file of clicks: .tsv, .tsv.gz or .tsv.zst.
bool IsClicksName(const std::string& path);

// Returns whether the name is that of a CSV file: .csv, .csv.gz or .csv.zst.
bool IsTableName(const std::string& path);

// Returns whether the name is that of a TFRecord file: the part behind the last '/' contains
// ".tfrecord".
bool IsRecordsName(const std::string& path);

// Makes a data set of examples without labels from one file (.npy, .csv, .tsv, .tfrecord or an
// image, by its name) or from a folder of images. They are read like the test split of the run
// file. If the run has ids in .npy files, one file for each column, `path` may be any of the files.
// A .tsv is read as Criteo's format if the run uses it; for a run on synthetic clicks, a line has
// 13 numbers and 26 columns of ids, and commas separate the ids of a list. Labels, which every data
// set has, are all 0.
absl::StatusOr<std::unique_ptr<Dataset>> MakeInputs(const v1::DataConfig& config,
                                                    const std::string& path,
                                                    const DataRules& rules = {});

// Returns the number of classes for a model of this data: the run file's, or else the data set's,
// or else 10.
int64_t NumClasses(const v1::DataConfig& config, const Dataset& dataset);

// Returns how many threads should share the reading of a batch: the run file's number. If it sets
// none: 1, or one per CPU but at most 8 if Dataset::is_costly().
int DecodeThreads(const v1::DataConfig& config, const Dataset& dataset);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_FACTORY_H_
