#ifndef SHOAL_ML_DATA_DATASET_FACTORY_H_
#define SHOAL_ML_DATA_DATASET_FACTORY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

namespace v1 {
class DataConfig;
}

enum class DataSplit { kTrain, kTest };

// The data set that a run file describes, images resized, cropped and normalised as it says; the
// training split with its random augmentation. `seed` is for that and for synthetic data, whose
// test split is drawn apart from the training split. Unset fields mean their defaults
// (ml/data/data_defaults.h). Errors name the file, or the field of the run file, and the remedy;
// NotFound: there is no such split.
absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const v1::DataConfig& given, DataSplit split,
                                                     uint64_t seed);

// Returns whether the data has a test split, complete or not. NotFound if there is none and the run
// file asks for test examples.
absl::StatusOr<bool> HasTestSplit(const v1::DataConfig& given);

// Examples without labels from one file, .npy, .csv or an image by its name, or from a folder of
// images; read as the run file says of the test split. The second field, which a data set has, is
// all 0.
absl::StatusOr<std::unique_ptr<Dataset>> MakeInputs(const v1::DataConfig& config,
                                                    const std::string& path);

// How many classes a model for this data tells apart: what the run file says, else what the data
// set knows, else 10.
int64_t NumClasses(const v1::DataConfig& config, const Dataset& dataset);

// Threads that should share the reading of a batch: what the run file says, else 1, or one per CPU
// up to 8 where reading is costly.
int DecodeThreads(const v1::DataConfig& config, const Dataset& dataset);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_FACTORY_H_
