#include "runtime/variables/slice_store_config.h"

#include "base/status_macros.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/run_config.h"
#include "runtime/variables/update_rules.h"

namespace shoal {

absl::StatusOr<SliceStoreOptions> SliceStoreOptionsFrom(const v1::RunConfig& run,
                                                        const StepPlan& plan) {
  const uint64_t last_step = plan.LastStep(run.max_steps(), run.num_epochs());
  SliceStoreOptions options;
  options.synchronous = IsSynchronous(run);
  options.seed = run.seed();
  if (run.num_epochs() > 0) options.end_epoch = run.num_epochs();
  if (!options.synchronous) options.max_staleness = run.sync().max_staleness();
  options.cuts = VersionSchedule{run.checkpoint().save_every(), last_step};

  const int64_t total_updates = last_step == UINT64_MAX ? 0 : static_cast<int64_t>(last_step);
  ASSIGN_OR_RETURN(options.update, UpdateSettingsFrom(run.optimizer(), total_updates));
  return options;
}

}  // namespace shoal
