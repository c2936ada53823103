#ifndef SHOAL_RUNTIME_VARIABLES_OWNED_VARIABLES_H_
#define SHOAL_RUNTIME_VARIABLES_OWNED_VARIABLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/tensor/buffer.h"
#include "proto/v1/variable.pb.h"
#include "runtime/variables/update_rules.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
}

// Whole variables and their slots, without slices or versions, updated one step after the other. It
// is for a model that a program trains by itself; runs use a SliceStore, which has the same
// arithmetic. Not thread-safe.
class OwnedVariables {
 public:
  // Creates variables with the initial values of a run with the seed. If `optimizer` is null, only
  // SetValue changes the values. InvalidArgument names the variable or the optimizer's field.
  static absl::StatusOr<std::unique_ptr<OwnedVariables>> Create(
      std::vector<v1::VariableSpec> specs, const v1::OptimizerConfig* optimizer, uint64_t seed);

  size_t size() const { return specs_.size(); }
  const v1::VariableSpec& spec(size_t variable) const { return specs_[variable]; }
  // The value's address is valid until the next ApplyStep, which may replace the memory.
  absl::Span<const float> value(size_t variable) const;
  // A number, never 0, that differs after every change of the value.
  uint64_t version(size_t variable) const { return owned_[variable].version; }
  // Replaces the whole value of the variable. Slots stay unchanged.
  void SetValue(size_t variable, absl::Span<const float> elements);

  // Makes one update from a step's contributions, indexed by variable (null: none). Returns
  // FailedPrecondition, and changes nothing, if a gradient or a new value is not finite.
  absl::Status ApplyStep(absl::Span<const float* const> contributions);
  uint64_t step() const { return step_; }  // updates so far

  // The state of the optimizer, for checkpoints: what ApplyStep continues from is the values, the
  // slots and the step. Spans have the variable's size and are valid until the next ApplyStep.
  std::vector<std::string> slot_names(size_t variable) const;
  absl::Span<const float> slot(size_t variable, size_t slot) const;
  absl::Span<float> MutableSlot(size_t variable, size_t slot);
  absl::Span<float> MutableValue(size_t variable);  // counts as a change of the value
  void set_step(uint64_t step) { step_ = step; }

 private:
  struct Owned {
    std::unique_ptr<VariableUpdater> updater;  // null without an optimizer
    size_t num_elements = 0;
    Buffer value, new_value, slots, new_slots;
    bool is_updated = false;  // the step under way updates it
    uint64_t version = 1;
  };

  OwnedVariables() = default;
  absl::Status SetOptimizer(const v1::OptimizerConfig& optimizer);
  float ComputeClipScale(absl::Span<const float* const> contributions) const;

  std::vector<v1::VariableSpec> specs_;
  std::vector<Owned> owned_;
  UpdateSettings settings_;
  std::unique_ptr<UpdateRules> rules_;
  uint64_t step_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_OWNED_VARIABLES_H_
