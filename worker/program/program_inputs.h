// Starts a run's compute program (docs/compute_program.md).
#ifndef SHOAL_WORKER_PROGRAM_PROGRAM_INPUTS_H_
#define SHOAL_WORKER_PROGRAM_PROGRAM_INPUTS_H_

#include "absl/status/statusor.h"

#include "proto/v1/chief_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "worker/replica/replica_inputs.h"

namespace shoal {

class FileSystem;
struct TaskOptions;

// Starts the program of this worker, which ends with the caller's thread, waits until it is ready,
// and writes its initial values into the run's directory. Completes `options->run` by the settings
// that the program declares. FailedPrecondition: another start would not help. If the program was
// started before in this run (TaskOptions::was_checked, or the run has trained), what keeps it from
// starting is temporary. The clock must outlive the inputs.
absl::StatusOr<ReplicaInputs> LoadProgramInputs(TaskOptions* options);

// Starts the program of a resolved run, which writes to this process's standard error, asks what it
// declares, and ends it. Writes no file. If `has_started_before`, what keeps the program from
// starting is temporary, as in LoadProgramInputs.
absl::StatusOr<v1::WorkerProgram> AskProgram(const v1::RunConfig& run, bool has_started_before);

// Returns whether the run in `directory` has trained, so its program has started before; true also
// if that cannot be seen now.
bool HasTrained(const std::string& directory, FileSystem* file_system);

}  // namespace shoal

#endif  // SHOAL_WORKER_PROGRAM_PROGRAM_INPUTS_H_
