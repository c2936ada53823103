// `shoal status`: a run's status as text for people and as JSON for programs.
#ifndef SHOAL_DEPLOY_STATUS_REPORT_H_
#define SHOAL_DEPLOY_STATUS_REPORT_H_

#include <string>

#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/observability/summary.h"

namespace shoal {

// `now` is the time of the wall clock; ages are computed from it.
std::string StatusText(const v1::GetRunStatusResponse& run, absl::Time now);

// Returns one JSON object and a line end. docs/observability.md documents its fields, which later
// versions keep.
std::string StatusJson(const v1::GetRunStatusResponse& run, absl::Time now);

// The same for a run that is over, from its directory; one line without a line end. `resume` is the
// command that continues a run that has neither finished nor diverged.
std::string OverText(const std::string& directory, const Summary& summary,
                     const std::string& resume);
std::string OverJson(const std::string& directory, const Summary& summary,
                     const std::string& resume);

// The same for a run whose processes are gone and which has no summary of its end. `left` has its
// last step and its newest checkpoint; `holder` is the last process that held the directory, or "".
std::string NotRunningText(const std::string& directory, const Summary& left,
                           const std::string& holder, const std::string& resume);
std::string NotRunningJson(const std::string& directory, const Summary& left,
                           const std::string& message);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_STATUS_REPORT_H_
