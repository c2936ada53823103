// `shoal check_program`, which `shoal launch` runs on a host before the run starts there.
#ifndef SHOAL_DEPLOY_HOSTS_CHECK_PROGRAM_COMMAND_H_
#define SHOAL_DEPLOY_HOSTS_CHECK_PROGRAM_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

class FileSystem;

// Returns a hash of the content of the run's compute program. NotFound: the file cannot be read.
absl::StatusOr<std::string> HashOfProgram(const v1::RunConfig& run, FileSystem* file_system);

// Starts the compute program of `--run=FILE` once on this host, as its workers will, and asks what
// it declares. `--program_hash=` is HashOfProgram on the launcher's machine. Returns the exit code;
// an error is the last line on standard error, "shoal worker: …".
int CheckProgramMain(absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_HOSTS_CHECK_PROGRAM_COMMAND_H_
