// Trains a run in this process and reads its results, for tests.
#ifndef SHOAL_TESTS_CLUSTER_TRAINED_RUN_H_
#define SHOAL_TESTS_CLUSTER_TRAINED_RUN_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/file_system.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/observability/metrics_file.h"

namespace shoal {

// Parses `text` and then `extra` as one run file and resolves its defaults. `out` is a new
// directory named after the running test.
v1::RunConfig NewRun(const std::string& text, const std::string& extra, FileSystem* disk);

// RunInProcess on the real clock, with files on `disk`.
absl::Status TrainInProcess(v1::RunConfig run, uint32_t num_ps_tasks, uint32_t num_workers,
                            FileSystem* disk);

// Names and values of the variables.
using Values = std::map<std::string, std::vector<float>>;

// Returns the variables in the newest checkpoint of the run. Expects that no checkpoint is damaged.
Values NewestValues(FileSystem* disk, const v1::RunConfig& run);

// Returns the lines of the run's metrics.jsonl.
std::vector<StepMetrics> RecordedSteps(FileSystem* disk, const v1::RunConfig& run);

// Returns the losses of all steps and of the last evaluation, which depend on every row of tables.
std::vector<double> RecordedLosses(FileSystem* disk, const v1::RunConfig& run);

}  // namespace shoal

#endif  // SHOAL_TESTS_CLUSTER_TRAINED_RUN_H_
