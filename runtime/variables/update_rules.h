#ifndef SHOAL_RUNTIME_VARIABLES_UPDATE_RULES_H_
#define SHOAL_RUNTIME_VARIABLES_UPDATE_RULES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "ml/optim/learning_rate_schedule.h"
#include "ml/optim/update_rule.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
class VariableSpec;
}  // namespace v1

// Decodes the optimizer and its groups. `total_updates` is the length of a schedule without
// decay_steps; 0: it is not known. InvalidArgument names the field.
absl::StatusOr<UpdateSettings> UpdateSettingsFrom(const v1::OptimizerConfig& optimizer,
                                                  int64_t total_updates);

// The update rules and learning rates of a run: those of its optimizer, and those of each of its
// parameter groups. Not thread-safe; the updaters may be used on any thread.
class UpdateRules {
 public:
  // InvalidArgument names the field.
  static absl::StatusOr<std::unique_ptr<UpdateRules>> Create(const UpdateSettings& settings);

  // Returns the updater of a variable, which this object must outlive. For InvalidArgument see
  // VariableUpdater.
  absl::StatusOr<VariableUpdater> CreateUpdater(const v1::VariableSpec& variable) const;

  // Adds a learning rate, for a table. Returns its rate_index.
  absl::StatusOr<uint32_t> AddRate(const LearningRateScheduleOptions& schedule);

  // Returns the learning rate in a step of the updaters that have this rate_index(). Index 0 is the
  // run's own rate. A rate is computed once per step.
  float LearningRate(uint32_t rate_index, uint64_t step) {
    Rate& rate = rates_[rate_index];
    if (step != rate.step) {
      rate.value = rate.schedule.At(static_cast<int64_t>(step));
      rate.step = step;
    }
    return rate.value;
  }

 private:
  struct Rate {
    LearningRateSchedule schedule;
    uint64_t step = UINT64_MAX;  // the step that `value` belongs to
    float value = 0;
  };

  explicit UpdateRules(const UpdateSettings& settings) : settings_(settings) {}
  absl::Status Add(const OptimizerOptions& optimizer, const LearningRateScheduleOptions& schedule);

  const UpdateSettings settings_;
  // Both are indexed by rate_index: the run's own, then that of each group; rates_ has those of
  // tables too.
  std::vector<std::unique_ptr<UpdateRule>> rules_;
  std::vector<Rate> rates_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_UPDATE_RULES_H_
