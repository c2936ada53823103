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

// Writes the defaults of the rule that is selected into its unset fields.
void ResolveRuleDefaults(v1::OptimizerConfig* config);
void ResolveScheduleDefaults(v1::ScheduleConfig* schedule);

// The run file's optimizer as options, unset fields at their defaults. InvalidArgument names the
// field: `optimizer` without a rule, or a value out of its range.
absl::StatusOr<OptimizerOptions> OptimizerOptionsFrom(const v1::OptimizerConfig& given);

// The run file's schedule. `total_updates` takes the place of decay_steps = 0 (less the warm-up); 0
// = unknown, then a schedule that needs decay_steps must say them.
absl::StatusOr<LearningRateScheduleOptions> ScheduleOptionsFrom(const v1::OptimizerConfig& config,
                                                                int64_t total_updates);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_OPTIMIZER_CONFIG_H_
