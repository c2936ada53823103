#ifndef SHOAL_RUNTIME_PROCESS_DIRECTORY_OUTCOME_H_
#define SHOAL_RUNTIME_PROCESS_DIRECTORY_OUTCOME_H_

#include <optional>
#include <string>

#include "runtime/observability/summary.h"

namespace shoal {

// Returns how the run in the directory ended, or nothing if it is not over, or if nobody can see
// now whether it is. It is over if its summary.json is at least as new as the files that each start
// writes: first the text in its lock, then cluster.textproto.
std::optional<Summary> SummaryIfOver(const std::string& directory);

// Returns true if a start of the run in the directory has not yet written cluster.textproto: it is
// under way, or it was killed. Returns false if nobody can see now whether it has.
bool IsStarting(const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_DIRECTORY_OUTCOME_H_
