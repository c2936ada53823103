// Whole variables in a safetensors file, by name: what ParallelModel saves and loads, and what
// checkpoints export.
#ifndef SHOAL_WORKER_VARIABLE_FILE_H_
#define SHOAL_WORKER_VARIABLE_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace shoal {

class FileSystem;
class OwnedVariables;

// Atomic: the file is there whole, or as before.
absl::Status WriteVariableFile(FileSystem& file_system, const std::string& path,
                               const OwnedVariables& variables);

// The file must have exactly these variables, in any order. FailedPrecondition names the first that
// is missing, has another shape or type, or is too many; NotFound, DataLoss: the file. Then nothing
// is changed.
absl::Status ReadVariableFile(FileSystem& file_system, const std::string& path,
                              OwnedVariables* variables);

}  // namespace shoal

#endif  // SHOAL_WORKER_VARIABLE_FILE_H_
