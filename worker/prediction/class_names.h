// The names of a run's classes are in classes.txt in the run's directory, so that predictions do
// not need the run's data set: one name per line, in the order of the labels. Line ends and similar
// bytes are escaped as in C.
#ifndef SHOAL_WORKER_PREDICTION_CLASS_NAMES_H_
#define SHOAL_WORKER_PREDICTION_CLASS_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace shoal {

class FileSystem;

inline constexpr char kClassNamesFile[] = "classes.txt";

// Writes nothing if there are no names.
absl::Status WriteClassNames(FileSystem* file_system, const std::string& run_directory,
                             const std::vector<std::string>& names);

// Returns the names; none if the file does not exist or cannot be read.
std::vector<std::string> ReadClassNames(FileSystem* file_system, const std::string& run_directory);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_CLASS_NAMES_H_
