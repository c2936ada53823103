// `shoal status`: a run's status as text for people and as JSON for programs.
#ifndef SHOAL_DEPLOY_STATUS_REPORT_H_
#define SHOAL_DEPLOY_STATUS_REPORT_H_

#include <string>

#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"

namespace shoal {

// `now`: of the wall clock, for ages.
std::string StatusText(const v1::GetRunStatusResponse& run, absl::Time now);

// One object with a line end; its fields are described in docs/observability.md and stay.
std::string StatusJson(const v1::GetRunStatusResponse& run, absl::Time now);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_STATUS_REPORT_H_
