// `shoal inspect` lists the contents of a run's directory.
#ifndef SHOAL_DEPLOY_INSPECT_COMMAND_H_
#define SHOAL_DEPLOY_INSPECT_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

class FileSystem;

// Prints the report to standard output; returns the exit code.
int InspectMain(absl::Span<const std::string> args);

struct RunReport {
  std::string text;
  absl::Status damage;  // The damage of the newest damaged checkpoint; OK if none is damaged.
};

// Verifies every byte of the run's checkpoints (only of the one at `step`, if given), and lists
// them, and the variables and shards of the newest undamaged one. Returns NotFound if the directory
// or the checkpoint does not exist.
absl::StatusOr<RunReport> InspectRun(FileSystem* file_system, const std::string& run_directory,
                                     std::optional<uint64_t> step);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_INSPECT_COMMAND_H_
