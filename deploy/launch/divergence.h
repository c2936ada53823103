// Says how a run whose training diverged can continue.
#ifndef SHOAL_DEPLOY_LAUNCH_DIVERGENCE_H_
#define SHOAL_DEPLOY_LAUNCH_DIVERGENCE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;

// Returns whether `error`, with which a run ended, is the chief's error of training that diverges.
bool IsDivergence(absl::string_view error);

// Returns the lines that name the newest checkpoint from before the training diverged, and the
// command that continues from it with a tenth of the learning rate: `command` ("shoal train") with
// its flags. Returns "" unless IsDivergence(error). A checkpoint is from before if metrics.jsonl
// has a finite loss of the step after it, or if the error names a later update as the first that
// was not finite. The newest checkpoint of the run may be a later one; then the command begins a
// new run from the values of the earlier one. If no batch of this start was finite, a lower rate
// does not help, and the lines say that instead. `first_step`: the step at which this start of the
// run began; if it made no step that may be left out.
std::string HowToContinue(absl::string_view error, const v1::RunConfig& run,
                          const std::string& command, std::optional<uint64_t> first_step,
                          FileSystem* file_system);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_DIVERGENCE_H_
