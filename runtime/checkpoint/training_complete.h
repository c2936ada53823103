#ifndef SHOAL_RUNTIME_CHECKPOINT_TRAINING_COMPLETE_H_
#define SHOAL_RUNTIME_CHECKPOINT_TRAINING_COMPLETE_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

// The limits of its own length that a run has reached. A run ends at the first of them.
struct ReachedLimits {
  bool max_steps = false;
  bool num_epochs = false;
};

// Returns which of the run's limits lie at or before `steps` updates and `epochs` epochs, which may
// be a fraction (2.5: in the middle of the third). A limit of 0 is none and is never reached.
ReachedLimits FindReachedLimits(const v1::RunConfig& run, uint64_t steps, double epochs);

// Returns true if a run that resumes from the checkpoint has nothing left to train. For synchronous
// runs StepPlan::LastStep decides, as it does for the chief and the ps, because only the plan knows
// at which step an epoch ends. Returns an error if the manifest's plan makes no sense.
absl::StatusOr<bool> IsTrainingComplete(const v1::RunConfig& run, const v1::Manifest& manifest);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_TRAINING_COMPLETE_H_
