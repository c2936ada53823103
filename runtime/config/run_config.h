// A run's description: read, overridden, completed, printed, compared.
//
// The order is ParseRunConfig or LoadRunConfig, flags (flags.h), ResolveDefaults, ValidateRunConfig
// (validate.h). What comes out is run.textproto: it can be run again and means the same.
#ifndef SHOAL_RUNTIME_CONFIG_RUN_CONFIG_H_
#define SHOAL_RUNTIME_CONFIG_RUN_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/config/defaults.h"

namespace shoal {

namespace v1 {
class RunConfig;
class OptimizerConfig;
}  // namespace v1

absl::StatusOr<v1::RunConfig> ParseRunConfig(absl::string_view text, absl::string_view file_name);
absl::StatusOr<v1::RunConfig> LoadRunConfig(const std::string& path);

// The directory of the run whose run.textproto this is: the one that holds the file, beside `logs`
// or `checkpoints`. "" for every other run file. So a run's directory can be copied and moved.
std::string RunDirectoryOf(const std::string& run_file);

// Makes the paths of the run, its data and its worker_binary absolute, so that the run means the
// same from wherever it is gone on with.
void MakePathsAbsolute(const std::string& working_directory, v1::RunConfig* run);

// How many processes of job ps the run has. With num_ps_tasks=0 none, unless the workers run a
// program of their own, which has no variables inside: then one.
uint32_t NumPsProcesses(const v1::RunConfig& run);

// Prints the run with a comment on top that explains the text, and without `out`: see
// RunDirectoryOf.
std::string PrintRunConfig(const v1::RunConfig& run);

// Writes every default into the run, so that it is visible; changes nothing that was set. Left at 0
// because they need the size of the data: checkpoint.save_every, eval_every (every epoch) and
// optimizer.schedule.decay_steps (the run's number of updates).
void ResolveDefaults(const TaskCounts& counts, v1::RunConfig* run);

// Returns whether products are computed from bfloat16: compute_dtype.
bool ComputesInBfloat16(const v1::RunConfig& run);

// Examples of a worker's step: replica_batch_size, or batch_size for each of its clones.
uint64_t ReplicaBatchExamples(const v1::RunConfig& run);

// Selects the rule by name, keeping its parameters if it was selected already. "nesterov" is
// momentum with nesterov set. InvalidArgument lists the names.
absl::Status SelectOptimizer(absl::string_view name, v1::OptimizerConfig* optimizer);

// The name of the selected rule; "" when none is.
std::string OptimizerName(const v1::OptimizerConfig& optimizer);

const std::vector<std::string>& KnownOptimizers();
const std::vector<std::string>& KnownModels();
const std::vector<std::string>& KnownLosses();

// The parts of a resolved run that all tasks must share: model, data (not its directory),
// optimizer, batch and clone sizes, compute_dtype, seed, slices, and the kind of synchronisation.
// How long to train, where, and with how many tasks may differ.
v1::RunConfig SharedByAllTasks(const v1::RunConfig& run);

struct RunDifference {
  std::string field;  // "optimizer.learning_rate"
  std::string first;  // As text proto; "unset".
  std::string second;
};
// The first field in which two runs differ, if they do.
std::optional<RunDifference> FirstDifference(const v1::RunConfig& first,
                                             const v1::RunConfig& second);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_RUN_CONFIG_H_
