// Reads, completes, prints and compares run files.
//
// The order is ParseRunConfig or LoadRunConfig, flags (flags.h), ResolveDefaults, ValidateRunConfig
// (validate.h). The result is written to run.textproto, which describes the same run again.
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

// Returns the directory of the run whose run.textproto this is: the one that holds the file, beside
// `logs` or `checkpoints`. Returns "" for every other run file. So a run's directory can be copied
// and moved. Returns UNAVAILABLE if nobody can see now whether these are there (find_file.h).
absl::StatusOr<std::string> FindRunDirectory(const std::string& run_file);

// Makes the paths of the run, its data and its worker_binary absolute, so that the run can be
// resumed from any working directory.
void MakePathsAbsolute(const std::string& working_directory, v1::RunConfig* run);

// Returns the number of ps processes of the run. With num_ps_tasks=0 it is 0, or 1 if the workers
// run their own program, which cannot hold the variables.
uint32_t NumPsProcesses(const v1::RunConfig& run);

// Prints the run, without `out` (see FindRunDirectory), with a comment that explains the text.
std::string PrintRunConfig(const v1::RunConfig& run);

// Writes every default into the run, so that it is visible, and changes nothing that was set. Five
// fields stay 0. The defaults of checkpoint.save_every and eval_every (every epoch) and of
// optimizer.schedule.decay_steps (the run's number of updates) need the size of the data; the first
// start decides cluster.slice_bytes and sync.replicas_to_aggregate, and its checkpoints keep them.
void ResolveDefaults(const TaskCounts& counts, v1::RunConfig* run);

// Returns whether the run trains synchronously: sync.sync_replicas, which is true where the run
// file does not set it.
bool IsSynchronous(const v1::RunConfig& run);

// Returns the largest size of a slice: cluster.slice_bytes, or the default of a run whose first
// start was not given any.
uint64_t SliceBytes(const v1::RunConfig& run);

// Returns whether compute_dtype makes the operands of products bfloat16.
bool ComputesInBfloat16(const v1::RunConfig& run);

// Returns the examples of a worker's batch: replica_batch_size, or batch_size for each of its
// clones.
uint64_t ReplicaBatchExamples(const v1::RunConfig& run);

// Selects the rule by name, keeping its parameters if it was selected already. "nesterov" is
// momentum with nesterov set. InvalidArgument lists the names.
absl::Status SelectOptimizer(absl::string_view name, v1::OptimizerConfig* optimizer);

// Returns the name of the selected rule; "" if none is selected.
std::string OptimizerName(const v1::OptimizerConfig& optimizer);

const std::vector<std::string>& KnownOptimizers();
const std::vector<std::string>& KnownModels();
const std::vector<std::string>& KnownLosses();

// Returns the parts of a resolved run that all tasks must share: model, data (not its directory),
// optimizer, batch and clone sizes, compute_dtype, seed, slices, and the kind of synchronisation.
// The length of the training, its place and the numbers of tasks may differ.
v1::RunConfig SharedByAllTasks(const v1::RunConfig& run);

struct RunDifference {
  std::string field;  // "optimizer.learning_rate"
  std::string first;  // The value as text proto, or "unset".
  std::string second;
};
// Returns the first field in which two runs differ, if any.
std::optional<RunDifference> FirstDifference(const v1::RunConfig& first,
                                             const v1::RunConfig& second);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_RUN_CONFIG_H_
