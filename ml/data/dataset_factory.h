#ifndef SHOAL_ML_DATA_DATASET_FACTORY_H_
#define SHOAL_ML_DATA_DATASET_FACTORY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

namespace v1 {
class DataConfig;
}

enum class DataSplit { kTrain, kTest };

inline constexpr char kDefaultDataDirectory[] = "/usr/share/datasets/fashion-mnist";

// The data set that a run file describes; `seed` is for synthetic ones, whose test split is drawn
// apart from the training split. Unset fields mean their defaults (data_config.proto; synthetic:
// 10000 training and 2000 test examples of 600 features).
absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const v1::DataConfig& config, DataSplit split,
                                                     uint64_t seed);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATASET_FACTORY_H_
