#ifndef SHOAL_ML_DATA_CLICKS_DATASET_H_
#define SHOAL_ML_DATA_CLICKS_DATASET_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/data/clicks_model.h"
#include "ml/data/dataset.h"

namespace shoal {

// The largest values of ClicksOptions.
inline constexpr double kLargestClicksScale = 1000;
inline constexpr uint32_t kMostClicksDays = 10000;
inline constexpr uint32_t kMostClicksIds = 1000;

// Makes examples of clicks with the fields
//   input  float32 [13], with mean 0 and variance 1
//   c1 to c26  ragged, ids from 0 in the order of their frequency, approximately
//   label  int32, 1 for a click
// An example is a function of the options and its index alone, is made when it is read, and needs
// no memory. Ids follow a Zipf distribution (exponent 1.1). From day to day ids become up to 2.1
// times as frequent, or less frequent. A label is drawn from a hidden factorization model: the
// logit is linear in the numbers and in a weight of each id, plus the dot products of the vectors
// of all pairs of ids. Weights and vectors shrink with the rank of an id, as (6 / (6 + rank))^2.
// A row that occurs a few times cannot be learned, and no model would come near the best possible
// results if they depended on many such rows.
//
// Dataset::notice() has the AUC and the log loss that the hidden model's own probabilities reach on
// these examples (at most the first million); a model exceeds them only by chance. InvalidArgument
// names the field.
absl::StatusOr<std::unique_ptr<Dataset>> MakeClicks(const ClicksOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CLICKS_DATASET_H_
