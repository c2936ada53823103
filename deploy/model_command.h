// `shoal model` prints a model of the zoo as the layers of a run file.
#ifndef SHOAL_DEPLOY_MODEL_COMMAND_H_
#define SHOAL_DEPLOY_MODEL_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

// Prints to standard output; returns the exit code.
int ModelMain(absl::Span<const std::string> args);

// Returns `model { ... }` for a run file. `args`: a model's name and, if it is not 10, the number
// of classes.
absl::StatusOr<std::string> ModelText(absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_MODEL_COMMAND_H_
