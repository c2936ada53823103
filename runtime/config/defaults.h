// The defaults of run-file fields, which ResolveDefaults writes into the run and `--help` prints.
// The defaults of update rules and schedules are in ml/optim (optimizer_options.h,
// learning_rate_schedule.h), some of those of `data` in ml/data/data_defaults.h.
#ifndef SHOAL_RUNTIME_CONFIG_DEFAULTS_H_
#define SHOAL_RUNTIME_CONFIG_DEFAULTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

namespace v1 {
class RunConfig;
}

// Numbers of tasks that are used if neither the run file, nor flags, nor host lists give them.
struct TaskCounts {
  uint32_t num_replicas = 1;
  uint32_t num_ps_tasks = 0;
};
// The counts of `shoal train`. Every other command has TF-Slim's, the default of TaskCounts.
inline constexpr TaskCounts kTrainTaskCounts{2, 2};

// The slice size of a run whose first start was not given any. A run file keeps 0 until then.
inline constexpr uint64_t kDefaultSliceBytes = 256 * 1024;

// The learning rate of a run that sets none: with most update rules, and with adam and adamw.
inline constexpr double kDefaultLearningRate = 0.01;
inline constexpr double kDefaultAdamLearningRate = 0.001;

// The loss of a model that is not one of the zoo's, which have their own.
inline constexpr absl::string_view kDefaultLoss = "sparse_softmax_cross_entropy";

// Seconds that `shoal checkpoint` and `shoal stop`, and `shoal health`, wait without --timeout.
inline constexpr int kSaveTimeoutSeconds = 60;
inline constexpr int kHealthTimeoutSeconds = 5;

// Returns the default of the field with this path as text, "10" for "cluster.lease_seconds". A
// field without one is a programming error.
std::string DefaultText(absl::string_view path);

// Sets this field to its default if it is unset.
void SetFieldDefault(absl::string_view path, v1::RunConfig* run);

// Sets the fields that are unset (of fields without presence: 0 or empty) and whose default does
// not depend on the rest of the run.
void SetFieldDefaults(v1::RunConfig* run);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_DEFAULTS_H_
