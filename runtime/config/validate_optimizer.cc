#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/optim/optimizer_config.h"
#include "proto/v1/optimizer_config.pb.h"
#include "runtime/config/optimizer_groups.h"
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

// The ps compute with floats.
absl::Status CheckFloat(const std::string& field, double value) {
  RETURN_IF_ERROR(CheckRange(field, value, 0, kInfinity));
  if (std::isfinite(static_cast<float>(value))) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be a finite number as a float, is ", value));
}

absl::Status ValidateGroup(const std::string& field, const v1::OptimizerConfig& optimizer,
                           int index) {
  const v1::OptimizerGroup& group = optimizer.group(index);
  const bool has_rate = group.has_learning_rate() || group.has_learning_rate_multiplier();
  if (group.frozen() && (has_rate || group.has_weight_decay())) {
    return InvalidField(
        field + ".frozen",
        absl::StrCat("contradicts ", has_rate ? "learning_rate" : "weight_decay",
                     ", because frozen variables are not trained; drop one of them"));
  }
  if (group.has_learning_rate() && group.has_learning_rate_multiplier()) {
    return InvalidField(field + ".learning_rate_multiplier",
                        "is given with learning_rate; drop one of them");
  }
  RETURN_IF_ERROR(CheckFloat(field + ".learning_rate", group.learning_rate()));
  RETURN_IF_ERROR(
      CheckFloat(field + ".learning_rate_multiplier", group.learning_rate_multiplier()));
  RETURN_IF_ERROR(
      CheckFloat(field + ".learning_rate_multiplier", GroupLearningRate(optimizer, index)));
  if (group.has_weight_decay() && optimizer.has_ftrl()) {
    return InvalidField(field + ".weight_decay", "is not for ftrl; use optimizer.ftrl.l2");
  }
  return CheckFloat(field + ".weight_decay", group.weight_decay());
}

absl::Status ValidateGroups(const v1::OptimizerConfig& optimizer) {
  RETURN_IF_ERROR(OptimizerGroups::Create(optimizer).status());
  for (int g = 0; g < optimizer.group_size(); ++g) {
    RETURN_IF_ERROR(ValidateGroup(absl::StrCat("optimizer.group[", g, "]"), optimizer, g));
  }
  return absl::OkStatus();
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
  RETURN_IF_ERROR(
      CheckRange("optimizer.moving_average_decay", optimizer.moving_average_decay(), 0, 1));
  return ValidateGroups(optimizer);
}

}  // namespace shoal
