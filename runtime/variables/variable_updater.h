#ifndef SHOAL_RUNTIME_VARIABLES_VARIABLE_UPDATER_H_
#define SHOAL_RUNTIME_VARIABLES_VARIABLE_UPDATER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/optim/learning_rate_schedule.h"
#include "ml/optim/optimizer_options.h"
#include "ml/optim/update_rule.h"
#include "runtime/config/optimizer_groups.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

// The settings for updating variables: the decoded OptimizerConfig.
struct UpdateSettings {
  OptimizerOptions optimizer;
  LearningRateScheduleOptions schedule;
  // 0: off. The bound for each element of the step's mean gradient, after scaling by the norm.
  double clip_by_value = 0;
  // 0: off. Only in SYNC; in ASYNC the worker clips before it pushes.
  double clip_by_global_norm = 0;
  // 0: off. Otherwise average' = decay*average + (1-decay)*value' is kept as one more slot.
  double moving_average_decay = 0;
  // The parameter groups of the run (optimizer.group). Null: there are none.
  std::shared_ptr<const OptimizerGroups> groups;
  // The updates of the whole run, for schedules without decay_steps; 0: not known.
  int64_t total_updates = 0;
  struct Group {
    OptimizerOptions optimizer;
    LearningRateScheduleOptions schedule;
  };
  std::vector<Group> group_settings;  // indexed by group
};

// Applies contributions to one variable, for any range of its elements: by the optimizer's rule for
// gradients, as a moving average or an assignment for statistics. Immutable and thread-safe; Apply
// does not allocate.
class VariableUpdater {
 public:
  enum class Kind { kOptimizer, kMovingAverage, kAssign, kNone };

  // `rule` serves many variables and must outlive the updater. For rate_index see UpdateRules.
  // InvalidArgument names the variable or the setting.
  static absl::StatusOr<VariableUpdater> Create(const v1::VariableSpec& spec,
                                                const UpdateSettings& settings,
                                                const UpdateRule* rule, uint32_t rate_index = 0);

  Kind kind() const { return kind_; }
  uint32_t rate_index() const { return rate_index_; }

  // The distance in floats between slots of n elements, which lie one after another in one array.
  // All slots are 64-byte aligned.
  static size_t slot_stride(size_t num_elements) { return (num_elements + 15) / 16 * 16; }
  size_t num_slots() const { return slots_.size(); }
  const std::vector<SlotSpec>& slots() const { return slots_; }
  // Returns whether the last slot is an average of the value; it starts with the variable's initial
  // value.
  bool keeps_average() const { return average_.has_value(); }

  struct Update {
    uint64_t step = 0;  // the number of earlier updates; the optimizer's t is step + 1
    float learning_rate = 0;
    float scale = 1;  // multiplies the contribution; must be 1 unless kOptimizer
    const float* value = nullptr;
    const float* contribution = nullptr;
    float* new_value = nullptr;  // must not be `value`
    const float* slots = nullptr;
    float* new_slots = nullptr;  // may be `slots`
    size_t num_elements = 0;
  };
  // Returns false if a number of the new value or of a new slot is not finite. The outputs are
  // incomplete then, and the old contents of slots that are changed in place are lost.
  bool Apply(const Update& update) const;

 private:
  VariableUpdater() = default;
  // Applies the update to elements [begin, begin + count); `begin` is a multiple of 16.
  void ApplyTo(const Update& update, size_t begin, size_t count) const;
  void ApplyRule(const Update& update, size_t begin, size_t count) const;
  bool IsFinite(const Update& update, size_t begin, size_t count) const;

  Kind kind_ = Kind::kNone;
  uint32_t rate_index_ = 0;
  const UpdateRule* rule_ = nullptr;
  float clip_by_value_ = 0;
  std::vector<SlotSpec> slots_;
  std::optional<MovingAverage> statistic_;  // kMovingAverage
  std::optional<MovingAverage> average_;    // the average of an optimized variable's value
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_VARIABLE_UPDATER_H_
