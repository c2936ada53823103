#ifndef SHOAL_RUNTIME_PROCESS_SUMMARY_IF_OVER_H_
#define SHOAL_RUNTIME_PROCESS_SUMMARY_IF_OVER_H_

#include <string>

#include "absl/types/optional.h"

#include "runtime/observability/summary.h"

namespace shoal {

// How the run in the directory ended, if it is over: its summary.json is not older than what every
// start leaves there, first the words in its lock, then cluster.textproto.
absl::optional<Summary> SummaryIfOver(const std::string& directory);

// Whether a start of the run in the directory is under way, or was killed, that has not come as far
// as to write cluster.textproto.
bool IsStarting(const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_SUMMARY_IF_OVER_H_
