// Makes the page of a run from what the chief knows.
#ifndef SHOAL_CHIEF_DESCRIBE_RUN_H_
#define SHOAL_CHIEF_DESCRIBE_RUN_H_

#include "runtime/observability/run_page.h"

namespace shoal {

class RunHistory;
namespace v1 {
class GetRunStatusResponse;
class RunConfig;
}  // namespace v1

// `run` is resolved; `status` is the answer to GetRunStatus. The caller sets
// RunPage::program.
RunPage DescribeRun(const v1::RunConfig& run, const v1::GetRunStatusResponse& status,
                    const RunHistory& history, absl::Time now);

}  // namespace shoal

#endif  // SHOAL_CHIEF_DESCRIBE_RUN_H_
