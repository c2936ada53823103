// The figures of tables in metrics.jsonl and summary.json. The fields of the table "item" are
//
//   table:item:rows             rows that the ps store
//   table:item:bytes            their memory on all ps
//   table:item:rows_per_second  how fast the table has grown in the last seconds; only in
//                               metrics.jsonl
//   table:item:keys_read        keys that workers have read since the ps loaded the table,
//   table:item:rows_found       and how many of these had a row
//
// No other field has a colon in its name.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_TABLE_FIGURES_H_
#define SHOAL_RUNTIME_OBSERVABILITY_TABLE_FIGURES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

class JsonObject;

struct TableFigures {
  uint64_t rows = 0;
  uint64_t bytes = 0;
  std::optional<double> rows_per_second;
  uint64_t keys_read = 0;
  uint64_t rows_found = 0;
};

// Maps the names of tables to their figures.
using TablesFigures = std::map<std::string, TableFigures>;

// Appends the fields of all tables.
void AddTableFields(const TablesFigures& tables, JsonObject* json);

// Returns whether the field is one of a table, and then takes its value.
bool TakeTableField(absl::string_view name, absl::string_view value, TablesFigures* tables);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_TABLE_FIGURES_H_
