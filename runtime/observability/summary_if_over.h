#ifndef SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_IF_OVER_H_
#define SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_IF_OVER_H_

#include <string>

#include "absl/types/optional.h"

#include "runtime/observability/summary.h"

namespace shoal {

// How the run in the directory ended, if it is over: its summary.json is not older than its
// cluster.textproto, which every start writes.
absl::optional<Summary> SummaryIfOver(const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_SUMMARY_IF_OVER_H_
