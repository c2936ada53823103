// `shoal export` writes the variables of a checkpoint, or their averages, to one safetensors file.
#ifndef SHOAL_DEPLOY_EXPORT_COMMAND_H_
#define SHOAL_DEPLOY_EXPORT_COMMAND_H_

#include <string>

#include "absl/types/span.h"

namespace shoal {

// Writes the file and prints its name. Returns the exit code.
int ExportMain(absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_EXPORT_COMMAND_H_
