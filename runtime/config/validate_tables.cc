#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "ml/nn/feature_names.h"
#include "ml/optim/table_config.h"
#include "proto/v1/run_config.pb.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/rule.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

// A '*' may stand at the end.
absl::Status CheckName(const std::string& field, absl::string_view name) {
  if (name == "*" || IsTableName(absl::StripSuffix(name, "*"))) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("\"", absl::CHexEscape(name),
                                          "\" must be 1 to 128 letters, digits, '_', '-' or '.', "
                                          "with at most one '*', at its end"));
}

absl::Status ValidateTable(const v1::RunConfig& run, int index) {
  const v1::TableConfig& table = run.table(index);
  const std::string field = absl::StrCat("table[", index, "]");
  RETURN_IF_ERROR(CheckName(field + ".name", table.name()));
  for (int other = 0; other < index; ++other) {
    if (run.table(other).name() != table.name()) continue;
    return InvalidField(
        field + ".name",
        absl::StrCat("\"", table.name(), "\" is that of table[", other, "] too; keep one of them",
                     run.table(other).dim() == table.dim()
                         ? ""
                         : absl::StrCat(", with one dim: they are ", run.table(other).dim(),
                                        " and ", table.dim())));
  }
  const absl::Status valid = ValidateTableConfig(table);
  return valid.ok() ? valid : absl::InvalidArgumentError(absl::StrCat(field, ".", valid.message()));
}

// Returns whether the table name of a feature, which may contain the '*' of its column, can become
// a name that the entry stands for.
bool CanStandFor(absl::string_view entry, const v1::FeatureConfig& feature) {
  const std::string& table = feature.table();
  const size_t star = table.find('*');
  if (star == std::string::npos) return StandsFor(entry, table);
  // The part of the name that does not depend on the column.
  const std::string known =
      absl::StrCat(table.substr(0, star), absl::StripSuffix(feature.column(), "*"));
  const absl::string_view plain = absl::StripSuffix(entry, "*");
  return absl::StartsWith(plain, known) || (IsPattern(entry) && absl::StartsWith(known, plain));
}

absl::Status ValidateFeature(const v1::RunConfig& run, int index, std::set<std::string>* names) {
  const v1::FeatureConfig& feature = run.model().feature(index);
  const std::string field = absl::StrCat("model.feature[", index, "]");
  if (feature.column().empty()) {
    return InvalidField(field + ".column",
                        "is empty; name the column of the data that has the ids");
  }
  if (feature.table().empty()) {
    return InvalidField(field + ".table", "is empty; name the table that has the rows of the ids");
  }
  if (absl::StrContains(absl::StripSuffix(feature.column(), "*"), '*')) {
    return InvalidField(field + ".column", "may have one '*', at its end");
  }
  const bool is_pattern = IsPattern(feature.column());
  for (const auto& [part, name] :
       {std::pair<const char*, const std::string&>("name", feature.name()),
        {"table", feature.table()}}) {
    const size_t star = name.find('*');
    if (star == std::string::npos) continue;
    if (!is_pattern) {
      return InvalidField(absl::StrCat(field, ".", part),
                          absl::StrCat("\"", name, "\" has a '*', but the column has none"));
    }
    if (name.find('*', star + 1) != std::string::npos) {
      return InvalidField(absl::StrCat(field, ".", part), "may have one '*'");
    }
  }
  if (is_pattern && !feature.name().empty() && !absl::StrContains(feature.name(), '*')) {
    return InvalidField(field + ".name",
                        absl::StrCat("\"", feature.name(),
                                     "\" would be the name of many features; "
                                     "put a '*' where the column's name belongs, or drop it"));
  }
  const std::string& name = feature.name().empty() ? feature.column() : feature.name();
  if (name == "input") {
    return InvalidField(field + ".name", "\"input\" is the model's dense input; use another name");
  }
  if (!names->insert(name).second) {
    return InvalidField(field + ".name",
                        absl::StrCat("\"", name,
                                     "\" is the name of another feature too; give each "
                                     "feature a name of its own"));
  }
  std::vector<std::string> tables;
  for (const v1::TableConfig& table : run.table()) {
    if (CanStandFor(table.name(), feature)) return absl::OkStatus();
    tables.push_back(table.name());
  }
  return InvalidField(field + ".table",
                      absl::StrCat("\"", feature.table(), "\" is not a table of the run",
                                   DidYouMean(feature.table(), tables), "; add table { name: \"",
                                   feature.table(), "\" dim: 16 }"));
}

// Returns whether some name stands under both names, which may be patterns.
bool Overlap(absl::string_view one, absl::string_view other) {
  if (!IsPattern(one) || !IsPattern(other)) return StandsFor(one, other) || StandsFor(other, one);
  const absl::string_view begin = absl::StripSuffix(one, "*");
  const absl::string_view of_other = absl::StripSuffix(other, "*");
  return absl::StartsWith(begin, of_other) || absl::StartsWith(of_other, begin);
}

// Checks that a feature names each column of ids, which nothing would read otherwise.
absl::Status ValidateIds(const v1::RunConfig& run) {
  for (int i = 0; i < run.data().ids_size(); ++i) {
    const v1::IdsOptions& ids = run.data().ids(i);
    const std::string& name = ids.name().empty() ? ids.column() : ids.name();
    bool is_used = false;
    std::vector<std::string> columns;
    for (const v1::FeatureConfig& feature : run.model().feature()) {
      is_used |= Overlap(feature.column(), name);
      columns.push_back(feature.column());
    }
    if (is_used || name.empty()) continue;
    const std::string nearest = NearestName(name, columns);
    return InvalidField(
        absl::StrCat("data.ids[", i, "]"),
        absl::StrCat("\"", name, "\" is named by no feature",
                     nearest.empty() ? "" : absl::StrCat("; one has column: \"", nearest, "\""),
                     "; drop it, or add model { feature { column: \"", name,
                     "\" table: \"TABLE\" } }"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateTables(const v1::RunConfig& run) {
  for (int t = 0; t < run.table_size(); ++t) RETURN_IF_ERROR(ValidateTable(run, t));
  const bool is_elsewhere = !run.program().file().empty() ||
                            !run.deployment().worker_binary().empty() ||
                            (run.model().name().empty() && run.model().layer().empty());
  if (is_elsewhere) return absl::OkStatus();
  std::set<std::string> names;
  std::vector<std::string> wanted;
  for (int f = 0; f < run.model().feature_size(); ++f) {
    RETURN_IF_ERROR(ValidateFeature(run, f, &names));
    wanted.push_back(run.model().feature(f).table());
  }
  for (int t = 0; t < run.table_size(); ++t) {
    bool is_used = false;
    for (const v1::FeatureConfig& feature : run.model().feature()) {
      is_used |= CanStandFor(run.table(t).name(), feature);
    }
    if (is_used) continue;
    return InvalidField(
        absl::StrCat("table[", t, "]"),
        absl::StrCat("\"", run.table(t).name(), "\" is named by no feature",
                     DidYouMean(run.table(t).name(), wanted),
                     "; drop it, or add model { feature { column: \"COLUMN\" table: \"",
                     run.table(t).name(), "\" } }"));
  }
  return ValidateIds(run);
}

}  // namespace shoal
