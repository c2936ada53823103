// The names of a run's classes, which its data set knows: classes.txt in the run's directory, a
// name per line in the order of the labels. Bytes that no line can hold are escaped as in C.
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

// Returns the names; none if the file is not there or cannot be read.
std::vector<std::string> ReadClassNames(FileSystem* file_system, const std::string& run_directory);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_CLASS_NAMES_H_
