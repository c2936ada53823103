#include "runtime/variables/variable_updater.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/optim/all_finite.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

// The number of elements that are updated and then checked together. Value, gradient and slots stay
// in the cache in between, and the cost of a call is small compared with that of the elements.
constexpr size_t kBlock = 16384;

absl::Status CheckSettings(const UpdateSettings& settings) {
  if (!std::isfinite(settings.clip_by_value) || settings.clip_by_value < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.clip_by_value is ", settings.clip_by_value, ": it must be 0 (off) or positive"));
  }
  if (!std::isfinite(settings.clip_by_global_norm) || settings.clip_by_global_norm < 0) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer.clip_by_global_norm is ",
                                                   settings.clip_by_global_norm,
                                                   ": it must be 0 (off) or positive"));
  }
  if (!(settings.moving_average_decay >= 0 && settings.moving_average_decay < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("optimizer.moving_average_decay is ",
                                                   settings.moving_average_decay,
                                                   ": it must be 0 (off) or below 1"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VariableUpdater> VariableUpdater::Create(const v1::VariableSpec& spec,
                                                        const UpdateSettings& settings,
                                                        const UpdateRule* rule,
                                                        uint32_t rate_index) {
  RETURN_IF_ERROR(CheckSettings(settings));
  VariableUpdater updater;
  updater.rate_index_ = rate_index;
  switch (spec.update()) {
    case v1::UPDATE_KIND_OPTIMIZER:
      updater.kind_ = Kind::kOptimizer;
      updater.rule_ = rule;
      updater.clip_by_value_ = static_cast<float>(settings.clip_by_value);
      updater.slots_ = rule->slots();
      if (settings.moving_average_decay > 0) {
        ASSIGN_OR_RETURN(updater.average_, MovingAverage::Create(settings.moving_average_decay));
        updater.slots_.push_back({"average", 0});
      }
      return updater;
    case v1::UPDATE_KIND_MOVING_AVERAGE: {
      updater.kind_ = Kind::kMovingAverage;
      ASSIGN_OR_RETURN(updater.statistic_, MovingAverage::Create(spec.decay()));
      return updater;
    }
    case v1::UPDATE_KIND_ASSIGN:
      updater.kind_ = Kind::kAssign;
      return updater;
    case v1::UPDATE_KIND_NONE:
      return updater;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("variable \"", spec.name(), "\": update is not a known UpdateKind"));
  }
}

bool VariableUpdater::Apply(const Update& update) const {
  if (kind_ == Kind::kNone) return true;
  for (size_t begin = 0; begin < update.num_elements; begin += kBlock) {
    const size_t count = std::min(kBlock, update.num_elements - begin);
    ApplyTo(update, begin, count);
    if (!IsFinite(update, begin, count)) return false;
  }
  return true;
}

void VariableUpdater::ApplyTo(const Update& update, size_t begin, size_t count) const {
  switch (kind_) {
    case Kind::kOptimizer:
      ApplyRule(update, begin, count);
      break;
    case Kind::kMovingAverage:
      statistic_->Apply(update.value + begin, update.contribution + begin, update.new_value + begin,
                        count);
      break;
    case Kind::kAssign:
      std::memcpy(update.new_value + begin, update.contribution + begin, count * sizeof(float));
      break;
    case Kind::kNone:
      break;
  }
}

void VariableUpdater::ApplyRule(const Update& update, size_t begin, size_t count) const {
  const size_t stride = slot_stride(update.num_elements);
  UpdateStep step;
  step.step = static_cast<int64_t>(update.step) + 1;
  step.learning_rate = update.learning_rate;
  step.gradient_scale = update.scale;
  step.gradient_limit = clip_by_value_;
  step.value = update.value + begin;
  step.gradient = update.contribution + begin;
  step.new_value = update.new_value + begin;
  for (size_t k = 0; k < rule_->slots().size(); ++k) {
    step.slots[k] = update.slots + k * stride + begin;
    step.new_slots[k] = update.new_slots + k * stride + begin;
  }
  step.n = count;
  rule_->Apply(step);
  if (average_.has_value()) {
    const size_t offset = rule_->slots().size() * stride + begin;
    average_->Apply(update.slots + offset, update.new_value + begin, update.new_slots + offset,
                    count);
  }
}

bool VariableUpdater::IsFinite(const Update& update, size_t begin, size_t count) const {
  bool finite = AllFinite(update.new_value + begin, count);
  for (size_t k = 0; k < num_slots(); ++k) {
    finite &= AllFinite(update.new_slots + k * slot_stride(update.num_elements) + begin, count);
  }
  return finite;
}

}  // namespace shoal
