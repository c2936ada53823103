#ifndef SHOAL_RUNTIME_VARIABLES_OWNED_VARIABLES_H_
#define SHOAL_RUNTIME_VARIABLES_OWNED_VARIABLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/optim/learning_rate_schedule.h"
#include "ml/tensor/buffer.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
}

// Whole variables and their slots, owned by whoever holds the object: no slices, no versions, one
// step after the other. For a model that a program trains by itself; runs have a SliceStore, whose
// arithmetic this is. Not thread-safe.
class OwnedVariables {
 public:
  // First values are those of a run with the seed. `optimizer` null: the values only change by
  // SetValue. InvalidArgument names the variable or the optimizer's field.
  static absl::StatusOr<std::unique_ptr<OwnedVariables>> Create(
      std::vector<v1::VariableSpec> specs, const v1::OptimizerConfig* optimizer, uint64_t seed);

  size_t size() const { return specs_.size(); }
  const v1::VariableSpec& spec(size_t variable) const { return specs_[variable]; }
  // Stays where it is until the next ApplyStep, which may exchange it for another.
  absl::Span<const float> value(size_t variable) const;
  // Another number after every change, never 0.
  uint64_t version(size_t variable) const { return owned_[variable].version; }
  // As many elements as the variable has. Slots stay as they are.
  void SetValue(size_t variable, absl::Span<const float> elements);

  // One update from a step's contributions, by variable; null: none. FailedPrecondition if a
  // gradient or a new value is not finite: then nothing has changed.
  absl::Status ApplyStep(absl::Span<const float* const> contributions);
  uint64_t step() const { return step_; }  // updates so far

 private:
  struct Owned {
    std::unique_ptr<VariableUpdater> updater;  // null without an optimizer
    size_t num_elements = 0;
    Buffer value, new_value, slots, new_slots;
    bool is_updated = false;  // in the step under way
    uint64_t version = 1;
  };

  OwnedVariables() = default;
  absl::Status SetOptimizer(const v1::OptimizerConfig& optimizer);
  float ClipScaleOf(absl::Span<const float* const> contributions) const;

  std::vector<v1::VariableSpec> specs_;
  std::vector<Owned> owned_;
  UpdateSettings settings_;
  std::unique_ptr<UpdateRule> rule_;
  std::unique_ptr<LearningRateSchedule> schedule_;
  uint64_t step_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_OWNED_VARIABLES_H_
