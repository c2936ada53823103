// Loads the files that a run has left in its directory, for eval, predict and similar commands.
#ifndef SHOAL_WORKER_REPLICA_TRAINED_VARIABLES_H_
#define SHOAL_WORKER_REPLICA_TRAINED_VARIABLES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/config/flags.h"

namespace shoal {

class FileSystem;

// Returns the resolved run: the run file that --run names, or the one in --out, overridden by the
// other flags. With --devices it has one clone on each device.
absl::StatusOr<v1::RunConfig> FindFinishedRun(const CommandLine& line);

// Returns an error that names the remedy if the run's model is in a compute program: shoal itself
// can then neither predict nor evaluate.
absl::Status CheckNotInComputeProgram(const v1::RunConfig& run);

// Returns NotFound with the reason why the directory has no checkpoints: there is no run, or it has
// made none; or UNAVAILABLE if nobody can see that now. If the directory has checkpoints/, `none`
// is the error of CheckpointDirectory::ListSome; FailedPrecondition then says that somebody has
// removed them.
absl::Status NoCheckpointIn(const FileSystem& files, const std::string& run_directory,
                            const absl::Status& none = absl::OkStatus());

// Opens the newest valid checkpoint in the run's directory, or the one of `step`. Returns the
// error of NoCheckpointIn if there is none.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenCheckpoint(FileSystem* file_system,
                                                           const std::string& run_directory,
                                                           std::optional<uint64_t> step);

// Returns NotFound, with the remedy, if the directory is missing in which the file that `flag`
// names is to be written.
absl::Status CheckDirectoryOf(const FileSystem& files, const std::string& flag,
                              const std::string& path);

// Returns FailedPrecondition with the first variable that is not the same in model and checkpoint.
absl::Status CheckSameVariables(const std::vector<v1::VariableSpec>& model,
                                const v1::Manifest& manifest);

// Returns what --use_averages asks for. FailedPrecondition: the checkpoint has no averages.
absl::StatusOr<VariableValues> ValuesToUse(bool use_averages, const Checkpoint& checkpoint);

// Returns the complete values of all variables, or their averages, in the order of the manifest;
// nothing for tables, whose rows may not fit.
absl::StatusOr<std::vector<std::vector<float>>> ReadVariables(
    Checkpoint* checkpoint, VariableValues which = VariableValues::kCurrent);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_TRAINED_VARIABLES_H_
