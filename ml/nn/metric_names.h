// The metrics that a run file can ask of its model, beside loss and accuracy.
#ifndef SHOAL_ML_NN_METRIC_NAMES_H_
#define SHOAL_ML_NN_METRIC_NAMES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum class MetricFunction {
  kLogLoss,            // log_loss: the mean of -log of the probability given to the label
  kMeanAbsoluteError,  // mean_absolute_error: the mean of |prediction - target|
  kTopAccuracy,  // top_K_accuracy: the share of examples whose label is among the K largest outputs
  // auc, the area under the curve, and calibration, the mean probability of the label 1 divided by
  // the share of such labels, exist for binary classifiers only.
  kAuc,
  kCalibration,
};

struct WantedMetric {
  MetricFunction function = MetricFunction::kLogLoss;
  int64_t k = 0;  // kTopAccuracy
};

// Parses a name. InvalidArgument lists all names.
absl::StatusOr<WantedMetric> ParseMetric(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_ML_NN_METRIC_NAMES_H_
