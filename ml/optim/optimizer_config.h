#ifndef SHOAL_ML_OPTIM_OPTIMIZER_CONFIG_H_
#define SHOAL_ML_OPTIM_OPTIMIZER_CONFIG_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "ml/optim/learning_rate_schedule.h"
#include "ml/optim/optimizer_options.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
class ScheduleConfig;
}  // namespace v1

// Sets the unset fields of the selected rule to their defaults.
void ResolveRuleDefaults(v1::OptimizerConfig* config);
void ResolveScheduleDefaults(v1::ScheduleConfig* schedule);

// Converts the run file's optimizer to options; unset fields get their defaults. InvalidArgument
// names the field: `optimizer` if no rule is selected, or the field whose value is out of range.
absl::StatusOr<OptimizerOptions> OptimizerOptionsFrom(const v1::OptimizerConfig& given);

// Converts the run file's schedule to options. If decay_steps is 0, it becomes total_updates minus
// the warm-up steps. If total_updates is 0 (unknown), a schedule that needs decay_steps must set
// it.
absl::StatusOr<LearningRateScheduleOptions> ScheduleOptionsFrom(const v1::OptimizerConfig& config,
                                                                int64_t total_updates);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_OPTIMIZER_CONFIG_H_
