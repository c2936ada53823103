#ifndef SHOAL_CHIEF_SESSION_ROLLOUT_H_
#define SHOAL_CHIEF_SESSION_ROLLOUT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "chief/session/bad_batches.h"
#include "chief/session/checkpoints.h"
#include "chief/session/model_exports.h"
#include "chief/session/session_context.h"

namespace shoal {

// Takes the run from one phase to the next: chooses the training mode when the plan is known,
// starts to train when all ps have loaded, and takes all ps back to the last checkpoint under a new
// lineage. (Roster starts the loading, when all tasks are there.) Not thread-safe.
class Rollout {
 public:
  // All are borrowed.
  Rollout(SessionContext* context, BadBatches* bad_batches, ModelExports* exports,
          Checkpoints* checkpoints)
      : context_(*context),
        bad_batches_(*bad_batches),
        exports_(*exports),
        checkpoints_(*checkpoints) {}

  // Publishes the run's plan and begins the mode that the run file sets. Call it once the plan is
  // known. The run fails if its checkpoint does not allow this mode.
  absl::Status OnPlan();
  void TrainIfLoaded();
  // Makes all ps go back to the last checkpoint, or to the initial values. Returns false, and does
  // nothing, in a run that is over.
  bool GoBack(const std::string& reason);

 private:
  SessionContext& context_;
  BadBatches& bad_batches_;
  ModelExports& exports_;
  Checkpoints& checkpoints_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ROLLOUT_H_
