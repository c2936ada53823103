#include "worker/replica/model_tables.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "ml/nn/feature_names.h"
#include "worker/replica/table_variable.h"

namespace shoal {
namespace {

int64_t RoundedUp(int64_t count) {
  int64_t power = 1;
  while (power < count) power *= 2;
  return power;
}

// Returns the field if it has ids: it is ragged, or has one int64 for each example.
std::optional<KeyField> FieldNamed(const std::vector<FieldSpec>& fields, const std::string& name) {
  const TensorSpec one_id{DataType::kInt64, {}};
  for (size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].name != name) continue;
    if (!fields[f].is_ragged() && !(fields[f].example == one_id)) continue;
    return KeyField{f, fields[f].is_ragged()};
  }
  return std::nullopt;
}

absl::StatusOr<v1::VariableSpec> DeclaredTable(const TableInput& input, const v1::RunConfig& run,
                                               size_t num_tables) {
  v1::TableConfig config;
  if (const v1::TableConfig* const entry = FindTable(run.table(), input.table)) config = *entry;
  if (config.dim() != 0 && config.dim() != input.dim) {
    return absl::InvalidArgumentError(absl::StrCat("model: table ", input.table, " has rows of ",
                                                   input.dim,
                                                   " numbers, but `table` in the run "
                                                   "file says dim: ",
                                                   config.dim(), "; make them equal"));
  }
  config.set_name(input.table);
  config.set_dim(static_cast<uint32_t>(input.dim));
  return TableVariable(config, run.optimizer(), num_tables);
}

}  // namespace

absl::Status ModelTables::Declare(const Graph& graph, const std::vector<FieldSpec>& fields,
                                  const v1::RunConfig& run, uint32_t first_variable) {
  for (const TableInput& input : graph.table_inputs()) {
    ASSIGN_OR_RETURN(v1::VariableSpec spec, DeclaredTable(input, run, graph.table_inputs().size()));
    if (graph.FindVariable(input.table) != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "model: \"", input.table, "\" is a table and a variable; rename the table or the layer"));
    }
    TableLookups& lookups = lookups_.emplace_back();
    lookups.table = first_variable + static_cast<uint32_t>(specs_.size());
    specs_.push_back(std::move(spec));
    for (const TableInput::Lookup& lookup : input.lookups) {
      const std::optional<KeyField> field = FieldNamed(fields, lookup.column);
      if (!field.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "model: table ", input.table, " reads the ids of \"", lookup.column,
            "\", which is not a column of ids of the data; name one of its columns of ids"));
      }
      if (std::count(lookups.fields.begin(), lookups.fields.end(), *field) > 0) continue;
      lookups.fields.push_back(*field);
    }
  }
  return absl::OkStatus();
}

absl::Status ModelTables::CheckEntries(const v1::RunConfig& run) const {
  for (const v1::TableConfig& entry : run.table()) {
    const bool is_used = std::any_of(
        specs_.begin(), specs_.end(),
        [&entry](const v1::VariableSpec& spec) { return StandsFor(entry.name(), spec.name()); });
    if (is_used) continue;
    const std::string tables =
        absl::StrJoin(specs_, ", ", [](std::string* text, const v1::VariableSpec& spec) {
          absl::StrAppend(text, spec.name());
        });
    return absl::InvalidArgumentError(absl::StrCat(
        "table: the run file has settings of \"", entry.name(), "\", but the model reads ",
        tables.empty() ? "no tables" : "only " + tables, "; correct its name, or drop the entry"));
  }
  return absl::OkStatus();
}

absl::Status ModelTables::CheckReads(const Graph& graph,
                                     const std::vector<FieldSpec>& fields) const {
  for (const TableInput& input : graph.table_inputs()) {
    const std::optional<size_t> table = Find(input.table);
    for (const TableInput::Lookup& lookup : input.lookups) {
      const std::optional<KeyField> field = FieldNamed(fields, lookup.column);
      if (table.has_value() && field.has_value() &&
          std::count(lookups_[*table].fields.begin(), lookups_[*table].fields.end(), *field) > 0) {
        continue;
      }
      return absl::InvalidArgumentError(
          absl::StrCat("model: the ids of \"", lookup.column, "\" are read from table ",
                       input.table, " only without is_training; read them always"));
    }
  }
  return absl::OkStatus();
}

std::optional<size_t> ModelTables::Find(const std::string& name) const {
  for (size_t t = 0; t < specs_.size(); ++t) {
    if (specs_[t].name() == name) return t;
  }
  return std::nullopt;
}

std::vector<int64_t> ModelTables::FirstCapacities(int64_t num_examples) const {
  std::vector<int64_t> capacities;
  for (const TableLookups& table : lookups_) {
    capacities.push_back(RoundedUp(num_examples * static_cast<int64_t>(table.fields.size())));
  }
  return capacities;
}

TableFeeds::TableFeeds(const ModelTables& tables, const Graph& graph,
                       const std::vector<FieldSpec>& fields,
                       const std::vector<int64_t>& clone_examples,
                       const std::vector<int64_t>& field_capacities,
                       std::vector<int64_t> row_capacities)
    : row_capacities_(std::move(row_capacities)) {
  std::vector<int64_t> first_examples = {0};
  for (const int64_t examples : clone_examples) {
    first_examples.push_back(first_examples.back() + examples);
  }
  for (const TableInput& input : graph.table_inputs()) {
    // Declare and CheckReads have found all tables of the graph.
    const size_t table = tables.Find(input.table).value();
    feeds_.push_back({input.rows, Shape({row_capacities_[table], input.dim})});
    Source& rows = sources_.emplace_back();
    rows.table = table;
    rows.is_rows = true;
    const std::vector<KeyField>& read = tables.lookups()[table].fields;
    for (const TableInput::Lookup& lookup : input.lookups) {
      const auto clone = static_cast<size_t>(std::max(lookup.clone_index, 0));
      if (clone_examples[clone] == 0) continue;
      Source& source = sources_.emplace_back();
      source.table = table;
      source.field = *FieldNamed(fields, lookup.column);
      source.place =
          static_cast<size_t>(std::find(read.begin(), read.end(), source.field) - read.begin());
      source.first_example = static_cast<size_t>(first_examples[clone]);
      source.num_examples = static_cast<size_t>(clone_examples[clone]);
      const int64_t capacity =
          source.field.is_ragged ? field_capacities[source.field.field] : clone_examples[clone];
      source.memory = Buffer(static_cast<uint64_t>(capacity) * sizeof(int32_t));
      feeds_.push_back({lookup.indices, Shape({capacity})});
    }
  }
}

bool TableFeeds::Fits(absl::Span<const TableRows> rows) const {
  for (size_t t = 0; t < rows.size(); ++t) {
    if (static_cast<int64_t>(rows[t].keys->keys.size()) > row_capacities_[t]) return false;
    if (rows[t].capacity < row_capacities_[t]) return false;
  }
  return true;
}

void TableFeeds::Bind(const LoadedBatch& batch, absl::Span<const TableRows> rows,
                      std::vector<const void*>* pointers) {
  for (Source& source : sources_) {
    if (source.is_rows) {
      pointers->push_back(rows[source.table].values);
      continue;
    }
    auto begin = static_cast<int64_t>(source.first_example);
    auto end = static_cast<int64_t>(source.first_example + source.num_examples);
    if (source.field.is_ragged) {
      const absl::Span<const int64_t> offsets = batch.ragged(source.field.field).offsets();
      begin = offsets[source.first_example];
      end = offsets[source.first_example + source.num_examples];
    }
    const std::vector<int32_t>& places = rows[source.table].keys->places[source.place];
    std::copy(places.begin() + begin, places.begin() + end, source.memory.As<int32_t>().begin());
    pointers->push_back(source.memory.data());
  }
}

}  // namespace shoal
