// Says how a run whose training diverged can continue.
#ifndef SHOAL_DEPLOY_LAUNCH_DIVERGENCE_H_
#define SHOAL_DEPLOY_LAUNCH_DIVERGENCE_H_

#include <string>

#include "absl/strings/string_view.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;

// Returns the lines that name the newest checkpoint from before the training diverged, and the
// command that continues from it with a tenth of the learning rate: `command` ("shoal train") with
// its flags. A checkpoint is from before if metrics.jsonl has a finite loss of the step after it.
// The newest checkpoint of the run may be a later one; then the command begins a new run from the
// values of the earlier one. `error` is the error with which the run ended.
std::string HowToContinue(absl::string_view error, const v1::RunConfig& run,
                          const std::string& command, FileSystem* file_system);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_DIVERGENCE_H_
