#include "ml/nn/metric_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace shoal {

absl::StatusOr<WantedMetric> ParseMetric(absl::string_view name) {
  if (name == "log_loss") return WantedMetric{MetricFunction::kLogLoss};
  if (name == "mean_absolute_error") return WantedMetric{MetricFunction::kMeanAbsoluteError};
  if (name == "auc") return WantedMetric{MetricFunction::kAuc};
  if (name == "calibration") return WantedMetric{MetricFunction::kCalibration};
  absl::string_view number = name;
  uint32_t k = 0;
  if (absl::ConsumePrefix(&number, "top_") && absl::ConsumeSuffix(&number, "_accuracy") &&
      absl::SimpleAtoi(number, &k) && k > 1 && absl::StrCat(k) == number) {
    return WantedMetric{MetricFunction::kTopAccuracy, k};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("metrics: unknown metric \"", name,
                   "\"; known are log_loss, mean_absolute_error, auc, calibration, and "
                   "top_K_accuracy with K above "
                   "1, as in top_5_accuracy"));
}

}  // namespace shoal
