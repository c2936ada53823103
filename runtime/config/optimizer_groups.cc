#include "runtime/config/optimizer_groups.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

std::string FieldOf(size_t group) { return absl::StrCat("optimizer.group[", group, "].variables"); }

// Statistics have no learning rate.
bool IsParameter(const v1::VariableSpec& variable) {
  return variable.update() == v1::UPDATE_KIND_OPTIMIZER ||
         variable.update() == v1::UPDATE_KIND_NONE;
}

}  // namespace

absl::StatusOr<OptimizerGroups> OptimizerGroups::Create(const v1::OptimizerConfig& optimizer) {
  OptimizerGroups groups;
  for (const v1::OptimizerGroup& group : optimizer.group()) {
    const std::string field = FieldOf(groups.size());
    if (group.variables().empty()) {
      return InvalidField(field,
                          "is empty; give an expression for names of variables, e.g. \".*bias\"");
    }
    ASSIGN_OR_RETURN(NamePatterns pattern, NamePatterns::Create(field, {group.variables()}));
    groups.groups_.push_back({std::move(pattern), group.frozen()});
  }
  return groups;
}

std::optional<size_t> OptimizerGroups::Find(absl::string_view variable) const {
  const auto group = std::find_if(groups_.begin(), groups_.end(), [variable](const Group& g) {
    return g.pattern.Matches(variable);
  });
  if (group == groups_.end()) return std::nullopt;
  return static_cast<size_t>(group - groups_.begin());
}

bool OptimizerGroups::IsFrozen(absl::string_view variable) const {
  const std::optional<size_t> group = Find(variable);
  return group.has_value() && groups_[*group].is_frozen;
}

void OptimizerGroups::Freeze(v1::VariableSpec* variable) const {
  if (!variable->has_table() && variable->update() == v1::UPDATE_KIND_OPTIMIZER &&
      IsFrozen(variable->name())) {
    variable->set_update(v1::UPDATE_KIND_NONE);
  }
}

absl::Status OptimizerGroups::CheckAllAreUsed(absl::Span<const v1::VariableSpec> variables) const {
  if (groups_.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  std::vector<bool> is_used(groups_.size(), false);
  bool is_trained = false;
  for (const v1::VariableSpec& variable : variables) {
    if (!IsParameter(variable)) continue;
    is_trained = is_trained || variable.update() == v1::UPDATE_KIND_OPTIMIZER;
    names.push_back(variable.name());
    if (const std::optional<size_t> group = Find(variable.name())) is_used[*group] = true;
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (is_used[g]) continue;
    RETURN_IF_ERROR(groups_[g].pattern.CheckAllAreUsed(FieldOf(g), names));
    return InvalidField(FieldOf(g),
                        "matches only variables that earlier groups have, and the first group that "
                        "matches counts; put this group first or drop it");
  }
  if (is_trained) return absl::OkStatus();
  return InvalidField("optimizer.group",
                      "all parameters are frozen, so there is nothing to train; drop "
                      "`frozen` of a group");
}

double GroupLearningRate(const v1::OptimizerConfig& optimizer, int group) {
  const v1::OptimizerGroup& settings = optimizer.group(group);
  if (settings.has_learning_rate()) return settings.learning_rate();
  if (settings.has_learning_rate_multiplier()) {
    return optimizer.learning_rate() * settings.learning_rate_multiplier();
  }
  return optimizer.learning_rate();
}

}  // namespace shoal
