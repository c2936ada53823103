// The parameter groups of a run file (optimizer.group): which variables each of them has.
#ifndef SHOAL_RUNTIME_CONFIG_OPTIMIZER_GROUPS_H_
#define SHOAL_RUNTIME_CONFIG_OPTIMIZER_GROUPS_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "runtime/config/name_patterns.h"

namespace shoal {

namespace v1 {
class OptimizerConfig;
class VariableSpec;
}  // namespace v1

// Immutable; any number of threads may use it.
class OptimizerGroups {
 public:
  // InvalidArgument names the group and what is wrong with its expression.
  static absl::StatusOr<OptimizerGroups> Create(const v1::OptimizerConfig& optimizer);

  size_t size() const { return groups_.size(); }
  // Returns the index of the first group whose expression matches the whole name.
  std::optional<size_t> Find(absl::string_view variable) const;
  bool IsFrozen(absl::string_view variable) const;
  // Makes a dense parameter of a frozen group a variable that nobody contributes to. Tables are
  // refused there (CheckTablesAreTrained).
  void Freeze(v1::VariableSpec* variable) const;
  // Checks that every group has a parameter, frozen or not, and that groups leave something to
  // train. InvalidArgument names the group, and some parameters.
  absl::Status CheckAllAreUsed(absl::Span<const v1::VariableSpec> variables) const;

 private:
  struct Group {
    NamePatterns pattern;
    bool is_frozen = false;
  };
  std::vector<Group> groups_;
};

// Returns the learning rate of a group at the run's own learning rate, before the schedule.
double GroupLearningRate(const v1::OptimizerConfig& optimizer, int group);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_OPTIMIZER_GROUPS_H_
