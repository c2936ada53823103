#ifndef SHOAL_ML_DATA_SYNTHETIC_DATASET_H_
#define SHOAL_ML_DATA_SYNTHETIC_DATASET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

// Data sets in memory whose examples are computed from a seed, the same on every machine.
struct SyntheticOptions {
  int64_t examples = 2000;
  int64_t features = 600;
  int64_t target_columns = 0;  // regression: 0 = as many as features
  int64_t classes = 10;        // classification
  uint64_t seed = 1;
  // The number of the first example. Different ranges of numbers give disjoint splits with the same
  // classes.
  uint64_t first_example = 0;
};

// Makes a regression. Fields: "input" float32 [features], uniform in [0, 1); "target" float32
// [target_columns], which is 2*x + 1 for the first target_columns inputs x.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticRegression(const SyntheticOptions& options);

// Makes a classification. Fields: "input" float32 [features], which is the center of the example's
// class (drawn from [0, 1) for each feature) plus noise that is uniform in [-0.5, 0.5); "label"
// int32. All classes are equally frequent.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticClassification(
    const SyntheticOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_SYNTHETIC_DATASET_H_
