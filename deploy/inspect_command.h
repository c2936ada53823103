// `shoal inspect`: what a run's directory holds.
#ifndef SHOAL_DEPLOY_INSPECT_COMMAND_H_
#define SHOAL_DEPLOY_INSPECT_COMMAND_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace shoal {

class FileSystem;

// Prints the report to standard output; returns the exit code.
int InspectMain(absl::Span<const std::string> args);

// The run's checkpoints, and of the one at `step` (the newest, if absent): its variables and
// shards, after every byte has been verified. NotFound: no such directory or checkpoint. DataLoss:
// damaged.
absl::StatusOr<std::string> InspectRun(FileSystem* file_system, const std::string& run_directory,
                                       absl::optional<uint64_t> step);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_INSPECT_COMMAND_H_
