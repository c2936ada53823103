#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_STORE_CONFIG_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_STORE_CONFIG_H_

#include "absl/status/statusor.h"

#include "runtime/plan/step_plan.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

namespace v1 {
class RunConfig;
}

// Derives a store's options from the resolved run: mode, staleness, update rule, schedule,
// clipping, cuts. InvalidArgument names the field.
absl::StatusOr<SliceStoreOptions> SliceStoreOptionsFrom(const v1::RunConfig& run,
                                                        const StepPlan& plan);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_STORE_CONFIG_H_
