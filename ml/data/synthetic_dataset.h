#ifndef SHOAL_ML_DATA_SYNTHETIC_DATASET_H_
#define SHOAL_ML_DATA_SYNTHETIC_DATASET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

// Examples made from a seed, the same ones on every machine; held in memory.
struct SyntheticOptions {
  int64_t examples = 2000;
  int64_t features = 600;
  int64_t target_columns = 0;  // regression: 0 = as many as features
  int64_t classes = 10;        // classification
  uint64_t seed = 1;
  // Splits of one seed: examples with other numbers are other examples of the same classes.
  uint64_t first_example = 0;
};

// "input" float32 [features], uniform in [0, 1); "target" float32 [target_columns]: 2*x + 1 of the
// first target_columns inputs.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticRegression(const SyntheticOptions& options);

// "input" float32 [features]: uniform noise in [0, 1) around a random point of the example's class
// in [0, 1); "label" int32, each class as often as any other.
absl::StatusOr<std::unique_ptr<Dataset>> MakeSyntheticClassification(
    const SyntheticOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_SYNTHETIC_DATASET_H_
