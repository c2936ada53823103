#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_VALUES_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_VALUES_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

#include "runtime/variables/variable_updater.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {

// The buffers of one slice: the current and the previous value, the slots, and one sum of
// contributions. Buffers come from the slice's own pools, so a steady state allocates nothing: two
// or three values alternate, and slots are changed in place unless a snapshot still holds them.
class SliceValues {
 public:
  // The updater must outlive the values.
  SliceValues(const VariableUpdater& updater, size_t num_elements);
  SliceValues(SliceValues&&) = default;

  // Prepares for a version that is not made from the one before it. The caller then fills
  // mutable_value() and mutable_slot(k).
  void Restart();

  size_t num_elements() const { return num_elements_; }
  absl::Span<float> mutable_value() { return {value_->data(), num_elements_}; }
  absl::Span<float> mutable_slot(size_t k);

  const VersionBufferRef& value() const { return value_; }
  const VersionBufferRef& previous_value() const { return previous_; }
  const VersionBufferRef& slots() const { return slots_; }  // null if the rule has none

  // Returns the sum that contributions are added to; allocates it in the first call.
  float* sum();

  // Makes the next version from a contribution (sum() or a payload). With `keep_previous` the
  // current value becomes the previous one. Returns false if a number of the new version is not
  // finite: then the current value stays, but the previous value and the slots are invalid until
  // Restart.
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
