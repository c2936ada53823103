#include "runtime/config/trained_tables.h"

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/optimizer_config.pb.h"
#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/config/name_patterns.h"
#include "runtime/config/optimizer_groups.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

absl::Status CheckGroup(const v1::OptimizerConfig& optimizer, size_t index,
                        const std::string& table) {
  const v1::OptimizerGroup& group = optimizer.group(static_cast<int>(index));
  const std::string field = absl::StrCat("optimizer.group[", index, "].variables");
  const std::string matches = absl::StrCat("\"", absl::CHexEscape(group.variables()),
                                           "\" matches the table \"", table, "\", which ");
  const std::string leave_out =
      absl::StrCat("put group { variables: \"", table, "\" } before this group");
  if (group.frozen()) {
    return InvalidField(
        field, absl::StrCat(matches, "cannot be frozen; to train it ", leave_out,
                            ", to keep the values of its rows give learning_rate_multiplier: 0 "
                            "instead of frozen"));
  }
  if (group.weight_decay() > 0) {
    return InvalidField(field,
                        absl::StrCat(matches, "has no weight decay; ", leave_out,
                                     ", and set optimizer { l2 } of the table where you want L2"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTablesAreTrained(const v1::RunConfig& run,
                                   absl::Span<const v1::VariableSpec> variables) {
  ASSIGN_OR_RETURN(const OptimizerGroups groups, OptimizerGroups::Create(run.optimizer()));
  ASSIGN_OR_RETURN(
      const NamePatterns trained,
      NamePatterns::Create("trainable", {run.trainable().begin(), run.trainable().end()}));
  for (const v1::VariableSpec& variable : variables) {
    if (!variable.has_table()) continue;
    const std::string& table = variable.name();
    if (!trained.empty() && !trained.Matches(table)) {
      return InvalidField(
          "trainable",
          absl::StrCat("leaves out the table \"", table, "\", which cannot be frozen; add \"",
                       table, "\", and optimizer { group { variables: \"", table,
                       "\" learning_rate_multiplier: 0 } } to keep the values of its rows"));
    }
    const std::optional<size_t> group = groups.Find(table);
    if (group.has_value()) RETURN_IF_ERROR(CheckGroup(run.optimizer(), *group, table));
  }
  return absl::OkStatus();
}

}  // namespace shoal
