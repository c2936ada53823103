#include <limits>

#include "base/status_macros.h"
#include "ml/optim/optimizer_config.h"
#include "proto/v1/optimizer_config.pb.h"
#include "runtime/config/rule.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A schedule's length may follow from the data, which is not known here.
constexpr int64_t kSomeUpdates = 1;

absl::Status CheckDecay(const v1::OptimizerConfig& optimizer) {
  if (!optimizer.has_adam() || !optimizer.adam().has_weight_decay()) return absl::OkStatus();
  return InvalidField(
      "optimizer.adam.weight_decay",
      "belongs to adamw; use --optimizer=adamw, or model.weight_decay for L2 in the loss");
}

}  // namespace

absl::Status ValidateOptimizer(const v1::OptimizerConfig& optimizer) {
  RETURN_IF_ERROR(CheckPositive("learning_rate", optimizer.learning_rate()));
  if (optimizer.rule_case() == v1::OptimizerConfig::RULE_NOT_SET) {
    return InvalidField("optimizer", "names no rule; give --optimizer=sgd or another");
  }
  RETURN_IF_ERROR(CheckDecay(optimizer));
  // The ps makes the same checks again, by the same functions.
  RETURN_IF_ERROR(OptimizerOptionsFrom(optimizer).status());
  RETURN_IF_ERROR(ScheduleOptionsFrom(optimizer, kSomeUpdates).status());
  RETURN_IF_ERROR(CheckRange("optimizer.clip_by_value", optimizer.clip_by_value(), 0, kInfinity));
  RETURN_IF_ERROR(
      CheckRange("optimizer.clip_by_global_norm", optimizer.clip_by_global_norm(), 0, kInfinity));
  return CheckRange("optimizer.moving_average_decay", optimizer.moving_average_decay(), 0, 1);
}

}  // namespace shoal
