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
  absl::Status
      damage;  // Describes the damage of the newest checkpoint that is not whole, if there is one.
};

// The run's checkpoints (only the one at `step`, if given), every byte verified, and variables and
// shards of the newest that is whole. NotFound: no such directory or checkpoint.
absl::StatusOr<RunReport> InspectRun(FileSystem* file_system, const std::string& run_directory,
                                     std::optional<uint64_t> step);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_INSPECT_COMMAND_H_
