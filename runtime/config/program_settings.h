// The settings of a run that its compute program may declare: optimizer, batch size and length.
#ifndef SHOAL_RUNTIME_CONFIG_PROGRAM_SETTINGS_H_
#define SHOAL_RUNTIME_CONFIG_PROGRAM_SETTINGS_H_

#include "absl/status/statusor.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {

// Returns whether the run has a compute program and leaves a setting to it: the optimizer, the
// learning rate, the batch size or the length. `given` is the run as its file and flags give it,
// without defaults.
bool LeavesSettingsToProgram(const v1::RunConfig& given);

// Returns the run with the settings of its compute program where the run does not set them. A run
// that sets all of them stays as it is.
v1::RunConfig WithSettings(v1::RunConfig run, const v1::RunConfig& settings);

// Returns the resolved run with the settings of its compute program where `given`, the same run
// without defaults, does not set them. InvalidArgument: the result is not a valid run.
absl::StatusOr<v1::RunConfig> CompleteRun(v1::RunConfig resolved, const v1::RunConfig& given,
                                          const v1::RunConfig& settings);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_PROGRAM_SETTINGS_H_
