// Reads and writes whole variables, by name, in a safetensors file. ParallelModel saves and loads
// such files, and checkpoints export them.
#ifndef SHOAL_WORKER_REPLICA_VARIABLE_FILE_H_
#define SHOAL_WORKER_REPLICA_VARIABLE_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

class FileSystem;
class OwnedVariables;

// Writes the file atomically: it has either the new content or its old one.
absl::Status WriteVariableFile(FileSystem& file_system, const std::string& path,
                               const OwnedVariables& variables);

// Reads a file that must have exactly these variables, in any order. FailedPrecondition names the
// first variable that is missing, superfluous or of another shape or type; NotFound and DataLoss
// name the file. After an error nothing is changed.
absl::Status ReadVariableFile(FileSystem& file_system, const std::string& path,
                              OwnedVariables* variables);

}  // namespace shoal

#endif  // SHOAL_WORKER_REPLICA_VARIABLE_FILE_H_
