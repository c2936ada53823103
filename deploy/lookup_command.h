// `shoal lookup` prints rows of a table from a run's newest checkpoint.
#ifndef SHOAL_DEPLOY_LOOKUP_COMMAND_H_
#define SHOAL_DEPLOY_LOOKUP_COMMAND_H_

#include <string>

#include "absl/types/span.h"

namespace shoal {

// Prints a line for each key. Returns the exit code.
int LookupMain(absl::Span<const std::string> args);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LOOKUP_COMMAND_H_
