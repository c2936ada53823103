#include "runtime/config/program_settings.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"

namespace shoal {

bool LeavesSettingsToProgram(const v1::RunConfig& given) {
  if (given.program().file().empty()) return false;
  const bool has_optimizer =
      !OptimizerName(given.optimizer()).empty() && given.optimizer().has_learning_rate();
  const bool has_batch_size = given.has_batch_size() || given.replica_batch_size() > 0;
  const bool has_length = given.max_steps() > 0 || given.num_epochs() > 0;
  return !has_optimizer || !has_batch_size || !has_length;
}

v1::RunConfig WithSettings(v1::RunConfig run, const v1::RunConfig& settings) {
  if (!LeavesSettingsToProgram(run)) return run;
  v1::RunConfig merged = settings;
  // Another rule has another learning rate.
  const std::string rule = OptimizerName(run.optimizer());
  if (!rule.empty() && rule != OptimizerName(settings.optimizer())) merged.clear_optimizer();
  // One of them is enough to say how long the run is, and how large a batch.
  if (run.max_steps() > 0 || run.num_epochs() > 0) {
    merged.clear_max_steps();
    merged.clear_num_epochs();
  }
  if (run.replica_batch_size() > 0) merged.clear_batch_size();
  // The order of groups counts, so the lists cannot be joined.
  if (run.optimizer().group_size() > 0) merged.mutable_optimizer()->clear_group();
  merged.MergeFrom(run);
  return merged;
}

absl::StatusOr<v1::RunConfig> CompleteRun(v1::RunConfig resolved, const v1::RunConfig& given,
                                          const v1::RunConfig& settings) {
  v1::RunConfig complete = WithSettings(given, settings);
  ResolveDefaults(TaskCounts(), &complete);
  *resolved.mutable_optimizer() = std::move(*complete.mutable_optimizer());
  resolved.set_batch_size(complete.batch_size());
  resolved.set_num_epochs(complete.num_epochs());
  resolved.set_max_steps(complete.max_steps());
  RETURN_IF_ERROR(ValidateRunConfig(resolved, ModelFrom::kElsewhere));
  return resolved;
}

}  // namespace shoal
