#include "runtime/variables/slice_store_config.h"

#include "base/status_macros.h"
#include "ml/optim/optimizer_config.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"

namespace shoal {

absl::StatusOr<SliceStoreOptions> SliceStoreOptionsFrom(const v1::RunConfig& run,
                                                        const StepPlan& plan) {
  const uint64_t last_step = plan.LastStep(run.max_steps(), run.num_epochs());
  SliceStoreOptions options;
  options.synchronous = IsSynchronous(run);
  if (run.num_epochs() > 0) options.end_epoch = run.num_epochs();
  if (!options.synchronous) options.max_staleness = run.sync().max_staleness();
  options.cuts = VersionSchedule{run.checkpoint().save_every(), last_step};

  const int64_t total_updates = last_step == UINT64_MAX ? 0 : static_cast<int64_t>(last_step);
  ASSIGN_OR_RETURN(options.update.optimizer, OptimizerOptionsFrom(run.optimizer()));
  ASSIGN_OR_RETURN(options.update.schedule, ScheduleOptionsFrom(run.optimizer(), total_updates));
  options.update.clip_by_value = run.optimizer().clip_by_value();
  options.update.clip_by_global_norm = run.optimizer().clip_by_global_norm();
  options.update.moving_average_decay = run.optimizer().moving_average_decay();
  return options;
}

}  // namespace shoal
