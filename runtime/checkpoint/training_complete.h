#ifndef SHOAL_RUNTIME_CHECKPOINT_TRAINING_COMPLETE_H_
#define SHOAL_RUNTIME_CHECKPOINT_TRAINING_COMPLETE_H_

#include "absl/status/statusor.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

// Returns true if a run that resumes from the checkpoint has nothing left to train. Returns an
// error if the manifest's plan makes no sense.
absl::StatusOr<bool> IsTrainingComplete(const v1::RunConfig& run, const v1::Manifest& manifest);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_TRAINING_COMPLETE_H_
