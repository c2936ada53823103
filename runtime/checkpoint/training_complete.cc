#include "runtime/checkpoint/training_complete.h"

#include "base/status_macros.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

ReachedLimits FindReachedLimits(const v1::RunConfig& run, uint64_t steps, double epochs) {
  ReachedLimits reached;
  reached.max_steps = run.max_steps() > 0 && steps >= run.max_steps();
  reached.num_epochs = run.num_epochs() > 0 && epochs >= run.num_epochs();
  return reached;
}

absl::StatusOr<bool> IsTrainingComplete(const v1::RunConfig& run, const v1::Manifest& manifest) {
  if (!manifest.synchronous()) {
    v1::DataLedgerState ledger;
    if (!manifest.finished() || !ledger.ParseFromString(manifest.ledger())) return false;
    const ReachedLimits reached = FindReachedLimits(run, ledger.updates(), ledger.next().epoch());
    return reached.max_steps || reached.num_epochs;
  }
  ASSIGN_OR_RETURN(const StepPlan plan, StepPlan::FromProto(manifest.plan()));
  return plan.LastStep(run.max_steps(), run.num_epochs()) <= manifest.step();
}

}  // namespace shoal
