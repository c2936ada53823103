#include "runtime/checkpoint/training_complete.h"

#include "base/status_macros.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

absl::StatusOr<bool> IsTrainingComplete(const v1::RunConfig& run, const v1::Manifest& manifest) {
  if (!manifest.synchronous()) {
    v1::DataLedgerState ledger;
    if (!manifest.finished() || !ledger.ParseFromString(manifest.ledger())) return false;
    return (run.max_steps() != 0 && ledger.updates() >= run.max_steps()) ||
           (run.num_epochs() != 0 && ledger.next().epoch() >= run.num_epochs());
  }
  ASSIGN_OR_RETURN(const StepPlan plan, StepPlan::FromProto(manifest.plan()));
  return plan.LastStep(run.max_steps(), run.num_epochs()) <= manifest.step();
}

}  // namespace shoal
