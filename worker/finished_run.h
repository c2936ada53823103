// Loads what a run has left in its directory, for the commands that use it.
#ifndef SHOAL_WORKER_FINISHED_RUN_H_
#define SHOAL_WORKER_FINISHED_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/config/flags.h"

namespace shoal {

class Checkpoint;
class FileSystem;

// The run file that --run names, or the one in --out, with the other flags on top; resolved. With
// --devices there is one clone on each.
absl::StatusOr<v1::RunConfig> FindFinishedRun(const CommandLine& line);

// The newest valid checkpoint in the run's directory, or the one of a step. NotFound: there is
// none.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(FileSystem* file_system,
                                                           const std::string& run_directory,
                                                           absl::optional<uint64_t> step);

// FailedPrecondition names the first variable that model and checkpoint do not share.
absl::Status CheckSameVariables(const std::vector<v1::VariableSpec>& model,
                                const v1::Manifest& manifest);

// The values of all variables, whole, in the order of the manifest.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(Checkpoint* checkpoint);

}  // namespace shoal

#endif  // SHOAL_WORKER_FINISHED_RUN_H_
