#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_VALUES_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_VALUES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

#include "runtime/variables/variable_updater.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {

// The buffers of one slice: the current and the previous value, the slots, and one sum for what
// comes in. Buffers come from pools of the slice's own, so a steady state allocates nothing: two or
// three values take turns, and slots are changed in place unless a snapshot still holds them.
class SliceValues {
 public:
  // The updater must outlive the values.
  SliceValues(const VariableUpdater& updater, size_t num_elements);
  SliceValues(SliceValues&&) = default;

  // Makes room for a version that does not follow from the one before it. Fill value() and slot(k),
  // then go on.
  void Restart();

  size_t num_elements() const { return num_elements_; }
  absl::Span<float> mutable_value() { return {value_->data(), num_elements_}; }
  absl::Span<float> mutable_slot(size_t k);

  const VersionBufferRef& value() const { return value_; }
  const VersionBufferRef& previous_value() const { return previous_; }
  const VersionBufferRef& slots() const { return slots_; }  // null if the rule has none

  // The sum that contributions are added to; made at the first call.
  float* sum();

  // Makes the next version from a contribution (sum() or a payload); the value before it becomes
  // the previous one if `keep_previous`. False if a number of it is not finite: the value stays,
  // but there is no previous one any more, and the slots are void, until Restart.
  struct Step {
    uint64_t step = 0;
    float learning_rate = 0;
    float scale = 1;
    const float* contribution = nullptr;
    bool keep_previous = true;
  };
  bool Apply(const Step& step);

 private:
  const VariableUpdater* updater_;
  size_t num_elements_;
  VersionBufferPool value_pool_;
  VersionBufferPool slot_pool_;
  VersionBufferRef value_;
  VersionBufferRef previous_;
  VersionBufferRef slots_;
  VersionBufferPool sum_pool_;
  VersionBufferRef sum_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_VALUES_H_
