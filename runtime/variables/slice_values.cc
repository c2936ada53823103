#include "runtime/variables/slice_values.h"

#include <algorithm>
#include <utility>

namespace shoal {

SliceValues::SliceValues(const VariableUpdater& updater, size_t num_elements)
    : updater_(&updater),
      num_elements_(num_elements),
      value_pool_(num_elements),
      slot_pool_(updater.num_slots() * VariableUpdater::slot_stride(num_elements)),
      sum_pool_(num_elements) {}

void SliceValues::Restart() {
  previous_.Reset();
  value_.Reset();
  slots_.Reset();
  value_ = value_pool_.Acquire();
  if (updater_->num_slots() > 0) {
    slots_ = slot_pool_.Acquire();
    for (size_t k = 0; k < updater_->num_slots(); ++k) {
      const absl::Span<float> slot = mutable_slot(k);
      std::fill(slot.begin(), slot.end(), updater_->slots()[k].initial_value);
    }
  }
}

absl::Span<float> SliceValues::mutable_slot(size_t k) {
  return {slots_->data() + k * VariableUpdater::slot_stride(num_elements_), num_elements_};
}

float* SliceValues::sum() {
  if (!sum_) sum_ = sum_pool_.Acquire();
  return sum_->data();
}

bool SliceValues::Apply(const Step& step) {
  // It cannot be requested any more: its buffer takes the new value if no reply holds it.
  previous_.Reset();
  VersionBufferRef new_value = value_pool_.Acquire();
  VersionBufferRef new_slots = slots_ && slots_.IsShared() ? slot_pool_.Acquire() : slots_;
  VariableUpdater::Update update;
  update.step = step.step;
  update.learning_rate = step.learning_rate;
  update.scale = step.scale;
  update.value = value_->data();
  update.contribution = step.contribution;
  update.new_value = new_value->data();
  update.slots = slots_ ? slots_->data() : nullptr;
  update.new_slots = new_slots ? new_slots->data() : nullptr;
  update.num_elements = num_elements_;
  if (!updater_->Apply(update)) return false;
  if (step.keep_previous) previous_ = std::move(value_);
  value_ = std::move(new_value);
  slots_ = std::move(new_slots);
  return true;
}

}  // namespace shoal
