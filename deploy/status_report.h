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

// One object with a line end; its fields are described in docs/observability.md and stay.
std::string StatusJson(const v1::GetRunStatusResponse& run, absl::Time now);

// The same for a run that is over, from its directory; one line without a line end.
std::string OverText(const std::string& directory, const Summary& summary);
std::string OverJson(const std::string& directory, const Summary& summary);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_STATUS_REPORT_H_
