#include "runtime/variables/update_rules.h"

#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "ml/optim/optimizer_config.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

UpdateSettings::Group MakeSettings(const v1::OptimizerConfig& config, int index,
                                   const UpdateSettings& run) {
  UpdateSettings::Group group{run.optimizer, run.schedule};
  if (config.group(index).has_weight_decay()) {
    const double decay = config.group(index).weight_decay();
    (config.has_adamw() ? group.optimizer.weight_decay : group.optimizer.l2_decay) = decay;
  }
  // A schedule is a function of the learning rate, except for its end.
  group.schedule.learning_rate = GroupLearningRate(config, index);
  group.schedule.end *= group.schedule.learning_rate / run.schedule.learning_rate;
  return group;
}

}  // namespace

absl::StatusOr<UpdateSettings> UpdateSettingsFrom(const v1::OptimizerConfig& optimizer,
                                                  int64_t total_updates) {
  UpdateSettings settings;
  settings.total_updates = total_updates;
  ASSIGN_OR_RETURN(settings.optimizer, OptimizerOptionsFrom(optimizer));
  ASSIGN_OR_RETURN(settings.schedule, ScheduleOptionsFrom(optimizer, total_updates));
  settings.clip_by_value = optimizer.clip_by_value();
  settings.clip_by_global_norm = optimizer.clip_by_global_norm();
  settings.moving_average_decay = optimizer.moving_average_decay();
  if (optimizer.group().empty()) return settings;
  ASSIGN_OR_RETURN(OptimizerGroups groups, OptimizerGroups::Create(optimizer));
  settings.groups = std::make_shared<const OptimizerGroups>(std::move(groups));
  for (int g = 0; g < optimizer.group_size(); ++g) {
    settings.group_settings.push_back(MakeSettings(optimizer, g, settings));
  }
  return settings;
}

absl::StatusOr<std::unique_ptr<UpdateRules>> UpdateRules::Create(const UpdateSettings& settings) {
  std::unique_ptr<UpdateRules> rules(new UpdateRules(settings));
  RETURN_IF_ERROR(rules->Add(settings.optimizer, settings.schedule));
  for (const UpdateSettings::Group& group : settings.group_settings) {
    RETURN_IF_ERROR(rules->Add(group.optimizer, group.schedule));
  }
  return rules;
}

absl::Status UpdateRules::Add(const OptimizerOptions& optimizer,
                              const LearningRateScheduleOptions& schedule) {
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateRule> rule, UpdateRule::Create(optimizer));
  ASSIGN_OR_RETURN(LearningRateSchedule rates, LearningRateSchedule::Create(schedule));
  rules_.push_back(std::move(rule));
  rates_.push_back({std::move(rates)});
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> UpdateRules::AddRate(const LearningRateScheduleOptions& schedule) {
  ASSIGN_OR_RETURN(LearningRateSchedule rates, LearningRateSchedule::Create(schedule));
  rates_.push_back({std::move(rates)});
  return static_cast<uint32_t>(rates_.size() - 1);
}

absl::StatusOr<VariableUpdater> UpdateRules::CreateUpdater(const v1::VariableSpec& variable) const {
  const std::optional<size_t> group =
      settings_.groups == nullptr ? std::nullopt : settings_.groups->Find(variable.name());
  const size_t rate_index = group.has_value() ? *group + 1 : 0;
  return VariableUpdater::Create(variable, settings_, rules_[rate_index].get(),
                                 static_cast<uint32_t>(rate_index));
}

}  // namespace shoal
