#ifndef SHOAL_ML_DATA_AUGMENTED_DATASET_H_
#define SHOAL_ML_DATA_AUGMENTED_DATASET_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

struct AugmentedDatasetOptions {
  uint64_t seed = 0;
  bool is_training = false;  // false: crops are taken from the middle, and nothing is random
  bool flip = false;         // training: left to right, every second time
  int64_t pad = 0;           // training: black pixels on each side before the crop
  int64_t crop = 0;          // side of the square cut out; 0: the images' own size
  std::vector<float> mean;   // per channel, or one for all, or none: (x - mean) / stddev
  std::vector<float> stddev;
};

// Returns whether these options change anything.
bool ChangesImages(const AugmentedDatasetOptions& options);

// The images of another data set, whose first field is float32 [channels, height, width], cropped,
// flipped and normalised. What is random is a function of (seed, epoch, index), so that an example
// looks different in every epoch and the same on every worker. InvalidArgument names the field of
// the run file.
absl::StatusOr<std::unique_ptr<Dataset>> AugmentImages(std::unique_ptr<Dataset> images,
                                                       const AugmentedDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_AUGMENTED_DATASET_H_
