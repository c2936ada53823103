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
  bool is_training = false;  // false: crops are centered, and nothing is random
  bool flip = false;         // training: mirrors an image left to right with probability 1/2
  int64_t pad = 0;           // training: black pixels added on each side before the crop
  int64_t crop = 0;          // side of the square crop in pixels; 0: the images' own size
  // The numbers of (x - mean) / stddev: one per channel, one for all channels, or empty.
  std::vector<float> mean;
  std::vector<float> stddev;
};

// Returns whether these options change anything.
bool ChangesImages(const AugmentedDatasetOptions& options);

// Returns a data set that crops, flips and normalises the images of another one, whose first field
// is float32 [channels, height, width]. The random choices depend only on (seed, epoch, index), so
// an example looks different in every epoch but the same on every worker. InvalidArgument names the
// field of the run file.
absl::StatusOr<std::unique_ptr<Dataset>> AugmentImages(std::unique_ptr<Dataset> images,
                                                       const AugmentedDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_AUGMENTED_DATASET_H_
