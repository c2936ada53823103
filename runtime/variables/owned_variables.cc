#include "runtime/variables/owned_variables.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/optim/gradient_clipping.h"
#include "proto/v1/optimizer_config.pb.h"
#include "runtime/variables/initial_values.h"

namespace shoal {
absl::StatusOr<std::unique_ptr<OwnedVariables>> OwnedVariables::Create(
    std::vector<v1::VariableSpec> specs, const v1::OptimizerConfig* optimizer, uint64_t seed) {
  std::unique_ptr<OwnedVariables> variables(new OwnedVariables());
  variables->specs_ = std::move(specs);
  for (const v1::VariableSpec& spec : variables->specs_) {
    Owned& owned = variables->owned_.emplace_back();
    owned.num_elements = 1;
    for (int64_t dim : spec.shape()) owned.num_elements *= static_cast<size_t>(dim);
    owned.value = Buffer(owned.num_elements * sizeof(float));
    RETURN_IF_ERROR(
        FillInitialValues(spec, seed, 0, owned.num_elements, owned.value.As<float>().data()));
  }
  if (optimizer != nullptr) RETURN_IF_ERROR(variables->SetOptimizer(*optimizer));
  return variables;
}

absl::Status OwnedVariables::SetOptimizer(const v1::OptimizerConfig& optimizer) {
  ASSIGN_OR_RETURN(settings_, UpdateSettingsFrom(optimizer, 0));
  ASSIGN_OR_RETURN(rules_, UpdateRules::Create(settings_));
  if (settings_.groups != nullptr) {
    for (v1::VariableSpec& spec : specs_) settings_.groups->Freeze(&spec);
    RETURN_IF_ERROR(settings_.groups->CheckAllAreUsed(specs_));
  }
  for (size_t v = 0; v < specs_.size(); ++v) {
    Owned& owned = owned_[v];
    ASSIGN_OR_RETURN(VariableUpdater updater, rules_->CreateUpdater(specs_[v]));
    owned.updater = std::make_unique<VariableUpdater>(std::move(updater));
    owned.new_value = Buffer(owned.num_elements * sizeof(float));
    const size_t stride = VariableUpdater::slot_stride(owned.num_elements);
    const size_t num_slots = owned.updater->num_slots();
    owned.slots = Buffer(num_slots * stride * sizeof(float));
    owned.new_slots = Buffer(num_slots * stride * sizeof(float));
    for (size_t s = 0; s < num_slots; ++s) {
      float* slot = owned.slots.As<float>().data() + s * stride;
      if (owned.updater->keeps_average() && s + 1 == num_slots) {
        std::copy_n(owned.value.As<float>().data(), owned.num_elements, slot);
      } else {
        std::fill_n(slot, owned.num_elements, owned.updater->slots()[s].initial_value);
      }
    }
  }
  return absl::OkStatus();
}

absl::Span<const float> OwnedVariables::value(size_t variable) const {
  return {owned_[variable].value.As<float>().data(), owned_[variable].num_elements};
}

void OwnedVariables::SetValue(size_t variable, absl::Span<const float> elements) {
  CHECK_EQ(elements.size(), owned_[variable].num_elements) << specs_[variable].name();
  std::copy(elements.begin(), elements.end(), MutableValue(variable).begin());
}

std::vector<std::string> OwnedVariables::slot_names(size_t variable) const {
  std::vector<std::string> names;
  if (owned_[variable].updater == nullptr) return names;
  for (const SlotSpec& slot : owned_[variable].updater->slots()) names.push_back(slot.name);
  return names;
}

absl::Span<const float> OwnedVariables::slot(size_t variable, size_t slot) const {
  const Owned& owned = owned_[variable];
  const size_t stride = VariableUpdater::slot_stride(owned.num_elements);
  return {owned.slots.As<float>().data() + slot * stride, owned.num_elements};
}

absl::Span<float> OwnedVariables::MutableSlot(size_t variable, size_t slot) {
  Owned& owned = owned_[variable];
  const size_t stride = VariableUpdater::slot_stride(owned.num_elements);
  return {owned.slots.As<float>().data() + slot * stride, owned.num_elements};
}

absl::Span<float> OwnedVariables::MutableValue(size_t variable) {
  ++owned_[variable].version;
  return {owned_[variable].value.As<float>().data(), owned_[variable].num_elements};
}

float OwnedVariables::ComputeClipScale(absl::Span<const float* const> contributions) const {
  if (settings_.clip_by_global_norm == 0) return 1;
  double sum_of_squares = 0;
  for (size_t v = 0; v < owned_.size(); ++v) {
    if (contributions[v] == nullptr) continue;
    if (owned_[v].updater->kind() != VariableUpdater::Kind::kOptimizer) continue;
    sum_of_squares += SumOfSquares({contributions[v], owned_[v].num_elements});
  }
  return ClipScale(sum_of_squares, settings_.clip_by_global_norm);
}

absl::Status OwnedVariables::ApplyStep(absl::Span<const float* const> contributions) {
  CHECK(rules_ != nullptr) << "made without an optimizer";
  const float scale = ComputeClipScale(contributions);
  bool is_finite = std::isfinite(scale);
  for (size_t v = 0; v < owned_.size() && is_finite; ++v) {
    Owned& owned = owned_[v];
    const VariableUpdater::Kind kind = owned.updater->kind();
    owned.is_updated = contributions[v] != nullptr && kind != VariableUpdater::Kind::kNone;
    if (!owned.is_updated) continue;
    VariableUpdater::Update update;
    update.step = step_;
    update.learning_rate = rules_->LearningRate(owned.updater->rate_index(), step_);
    update.scale = kind == VariableUpdater::Kind::kOptimizer ? scale : 1;
    update.value = owned.value.As<float>().data();
    update.contribution = contributions[v];
    update.new_value = owned.new_value.As<float>().data();
    update.slots = owned.slots.As<float>().data();
    update.new_slots = owned.new_slots.As<float>().data();
    update.num_elements = owned.num_elements;
    is_finite = owned.updater->Apply(update);
  }
  if (!is_finite) {
    return absl::FailedPreconditionError(
        "a gradient or a new value is not finite; the variables are left as they were");
  }
  for (Owned& owned : owned_) {
    if (!owned.is_updated) continue;
    std::swap(owned.value, owned.new_value);
    std::swap(owned.slots, owned.new_slots);
    ++owned.version;
  }
  ++step_;
  return absl::OkStatus();
}

}  // namespace shoal
