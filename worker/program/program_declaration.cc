#include "worker/program/program_declaration.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/optim/table_config.h"
#include "runtime/config/run_config.h"
#include "runtime/variables/metric_sums.h"
#include "worker/program/program_messages.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxExamples = uint64_t{1} << 40;
constexpr uint64_t kMaxElements = uint64_t{1} << 40;
constexpr uint64_t kMaxElementsInAll = uint64_t{1} << 42;
constexpr uint32_t kMaxVariables = 65536;
constexpr uint32_t kMaxDimensions = 8;
constexpr uint32_t kMaxAhead = 64;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxSettingsBytes = 64 << 10;
constexpr size_t kMaxFingerprintBytes = 1 << 10;
constexpr size_t kMaxTablesBytes = 1 << 20;
constexpr size_t kMaxTables = 4096;
constexpr size_t kMaxTableNameBytes = 128;

enum VariableKind : uint32_t { kTrainable = 1, kAssign = 2, kFrozen = 3 };

template <typename... Pieces>
absl::Status Refused(const Pieces&... pieces) {
  return absl::FailedPreconditionError(absl::StrCat(pieces...));
}

bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '/' ||
           c == '-';
  });
}

absl::StatusOr<std::string> TakeName(absl::string_view what, size_t most_bytes,
                                     std::set<std::string>* taken, MessageReader* reader) {
  std::string name = reader->Text(most_bytes);
  if (!reader->ok() || !IsName(name)) {
    return Refused("a ", what, " is named \"", absl::string_view(name).substr(0, 64),
                   "\"; a name has 1 to ", most_bytes, " of A-Z a-z 0-9 _ . / -");
  }
  if (!taken->insert(name).second) return Refused("two ", what, "s are named ", name);
  return name;
}

absl::StatusOr<v1::MetricSpec> TakeMetric(uint32_t version, std::set<std::string>* names,
                                          MessageReader* reader) {
  v1::MetricSpec metric;
  ASSIGN_OR_RETURN(*metric.mutable_name(), TakeName("metric", kMostMetricNameBytes, names, reader));
  if (const absl::Status name = CheckMetricName(metric.name()); !name.ok()) {
    return Refused("a metric is named ", metric.name(), ": ", name.message());
  }
  metric.set_kind(v1::METRIC_KIND_MEAN);
  if (version == 1) return metric;
  const uint32_t kind = reader->U32();
  if (kind != v1::METRIC_KIND_MEAN && kind != v1::METRIC_KIND_AUC) {
    return Refused("metric ", metric.name(), " has kind ", kind, "; kinds are 1 (MEAN), 2 (AUC)");
  }
  metric.set_kind(static_cast<v1::MetricKind>(kind));
  if (metric.name() == "accuracy" && kind != v1::METRIC_KIND_MEAN) {
    return Refused("metric accuracy has kind ", kind,
                   "; it must be a MEAN (kind 1): change the kind, or rename the metric");
  }
  return metric;
}

absl::Status TakeShape(MessageReader* reader, v1::VariableSpec* variable) {
  const uint32_t dimensions = reader->U32();
  if (!reader->ok() || dimensions > kMaxDimensions) {
    return Refused("variable ", variable->name(), " has ", dimensions, " dimensions; at most ",
                   kMaxDimensions, " are possible");
  }
  uint64_t elements = 1;
  for (uint32_t d = 0; d < dimensions; ++d) {
    const uint64_t size = reader->U64();
    if (!reader->ok() || size == 0 || size > kMaxElements / elements) {
      return Refused("variable ", variable->name(), ": dimension ", d, " is ", size,
                     "; a dimension is at least 1, and a variable has at most 2^40 elements");
    }
    elements *= size;
    variable->add_shape(static_cast<int64_t>(size));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::VariableSpec> TakeVariable(std::set<std::string>* names, MessageReader* reader) {
  v1::VariableSpec variable;
  ASSIGN_OR_RETURN(*variable.mutable_name(), TakeName("variable", kMaxNameBytes, names, reader));
  const uint32_t kind = reader->U32();
  variable.set_dtype(v1::DATA_TYPE_FLOAT32);
  variable.set_trainable(kind == kTrainable);
  // The values that the program gives come first; see v1::ModelDeclaration.initial_values.
  variable.mutable_initializer()->set_kind(v1::Initializer::KIND_ZEROS);
  switch (kind) {
    case kTrainable:
      variable.set_update(v1::UPDATE_KIND_OPTIMIZER);
      break;
    case kAssign:
      variable.set_update(v1::UPDATE_KIND_ASSIGN);
      break;
    case kFrozen:
      variable.set_update(v1::UPDATE_KIND_NONE);
      break;
    default:
      return Refused("variable ", variable.name(), " has kind ", kind,
                     "; kinds are 1 (TRAINABLE), 2 (ASSIGN), 3 (FROZEN)");
  }
  RETURN_IF_ERROR(TakeShape(reader, &variable));
  return variable;
}

absl::Status TakeVariables(MessageReader* reader, std::set<std::string>* names,
                           std::vector<v1::VariableSpec>* variables) {
  const uint32_t count = reader->U32();
  if (!reader->ok() || count > kMaxVariables) {
    return Refused("it declares ", count, " variables; at most ", kMaxVariables, " are possible");
  }
  uint64_t elements = 0;
  for (uint32_t v = 0; v < count; ++v) {
    ASSIGN_OR_RETURN(v1::VariableSpec variable, TakeVariable(names, reader));
    elements += NumElements(variable);
    if (elements > kMaxElementsInAll) return Refused("its variables have more than 2^42 elements");
    variables->push_back(std::move(variable));
  }
  return absl::OkStatus();
}

absl::Status CheckTrains(const ProgramDeclaration& declaration) {
  const std::vector<v1::VariableSpec>& variables = declaration.variables;
  if (!declaration.tables.empty() ||
      std::any_of(variables.begin(), variables.end(),
                  [](const v1::VariableSpec& variable) { return variable.trainable(); })) {
    return absl::OkStatus();
  }
  if (variables.empty()) {
    return Refused("it declares 0 variables and no table; there is nothing to train");
  }
  return Refused(
      "none of its variables is TRAINABLE, and it has no table; there is nothing to "
      "train");
}

absl::StatusOr<v1::RunConfig> ParseSettings(const std::string& text) {
  ASSIGN_OR_RETURN(v1::RunConfig settings, ParseRunConfig(text, "the program's settings"));
  v1::RunConfig others = settings;
  others.clear_optimizer();
  others.clear_batch_size();
  others.clear_num_epochs();
  others.clear_max_steps();
  if (others.ByteSizeLong() == 0) return settings;
  return Refused(
      "its settings have other fields than optimizer, batch_size, num_epochs and "
      "max_steps; give those to shoal");
}

// Names of tables become parts of file names.
bool IsTableName(absl::string_view name) {
  return IsName(name) && name.size() <= kMaxTableNameBytes && name[0] != '.' &&
         !absl::StrContains(name, '/');
}

absl::Status CheckTable(const v1::TableConfig& table, std::set<std::string>* names) {
  if (!IsTableName(table.name())) {
    return Refused("a table is named \"", absl::CHexEscape(table.name().substr(0, 64)),
                   "\"; a name has 1 to ", kMaxTableNameBytes,
                   " of A-Z a-z 0-9 _ . -, and no '.' at its beginning");
  }
  if (!names->insert(table.name()).second) {
    return Refused("table ", table.name(), " has the name of another table or of a variable");
  }
  const absl::Status valid = ValidateTableConfig(table);
  return valid.ok() ? valid : Refused("table ", table.name(), ": ", valid.message());
}

// The names of the variables are taken.
absl::StatusOr<std::vector<v1::TableConfig>> ParseTables(const std::string& text,
                                                         std::set<std::string>* names) {
  ASSIGN_OR_RETURN(v1::RunConfig config, ParseRunConfig(text, "the program's tables"));
  std::vector<v1::TableConfig> tables(config.table().begin(), config.table().end());
  config.clear_table();
  if (config.ByteSizeLong() > 0) return Refused("its tables have other fields than `table`");
  if (tables.size() > kMaxTables) {
    return Refused("it declares ", tables.size(), " tables; at most ", kMaxTables, " are possible");
  }
  for (const v1::TableConfig& table : tables) RETURN_IF_ERROR(CheckTable(table, names));
  return tables;
}

}  // namespace

uint64_t NumElements(const v1::VariableSpec& variable) {
  uint64_t elements = 1;
  for (const int64_t size : variable.shape()) elements *= static_cast<uint64_t>(size);
  return elements;
}

absl::StatusOr<ProgramDeclaration> DecodeDeclaration(absl::string_view payload, uint32_t version) {
  MessageReader reader(payload);
  ProgramDeclaration declaration;
  declaration.train_examples = reader.U64();
  declaration.test_examples = reader.U64();
  declaration.data_fingerprint = reader.U64();
  declaration.announced_ahead = reader.U32();
  declaration.compute_fingerprint = reader.Text(kMaxFingerprintBytes);
  const std::string settings = reader.Text(kMaxSettingsBytes);
  const uint32_t metrics = reader.U32();
  if (!reader.ok()) return Refused("its declaration is cut short, or a text in it is too long");
  if (declaration.train_examples == 0 || declaration.train_examples > kMaxExamples ||
      declaration.test_examples > kMaxExamples) {
    return Refused("it declares ", declaration.train_examples, " training and ",
                   declaration.test_examples,
                   " test examples; 1 to 2^40 and at most 2^40 are possible");
  }
  if (declaration.announced_ahead > kMaxAhead) {
    return Refused("it wants ", declaration.announced_ahead, " batches announced; at most ",
                   kMaxAhead, " are possible");
  }
  if (metrics > kMostMetrics) {
    return Refused("it declares ", metrics, " metrics; at most ", kMostMetrics,
                   " are possible: leave some out");
  }
  ASSIGN_OR_RETURN(declaration.settings, ParseSettings(settings));
  std::set<std::string> names;
  for (uint32_t m = 0; m < metrics; ++m) {
    ASSIGN_OR_RETURN(v1::MetricSpec metric, TakeMetric(version, &names, &reader));
    declaration.metrics.push_back(std::move(metric));
  }
  names.clear();  // Those of metrics are others.
  RETURN_IF_ERROR(TakeVariables(&reader, &names, &declaration.variables));
  if (version > 2) {
    const std::string tables = reader.Text(kMaxTablesBytes);
    if (!reader.ok()) return Refused("the text of its tables is cut short, or too long");
    ASSIGN_OR_RETURN(declaration.tables, ParseTables(tables, &names));
  }
  if (!reader.is_at_end()) return Refused("its declaration has bytes behind its end");
  RETURN_IF_ERROR(CheckTrains(declaration));
  return declaration;
}

}  // namespace shoal
