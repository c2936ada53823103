#ifndef SHOAL_RUNTIME_CHECKPOINT_RUN_END_H_
#define SHOAL_RUNTIME_CHECKPOINT_RUN_END_H_

#include "absl/status/statusor.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {

// Whether a run that stands at the checkpoint has nothing left to do. An error: the manifest's plan
// makes no sense.
absl::StatusOr<bool> IsAtEnd(const v1::RunConfig& run, const v1::Manifest& manifest);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_RUN_END_H_
