#include "runtime/observability/table_figures.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/json.h"

namespace shoal {
namespace {

constexpr absl::string_view kTable = "table:";

void TakeCount(absl::string_view value, uint64_t* count) {
  if (!absl::SimpleAtoi(value, count)) *count = 0;
}

}  // namespace

void AddTableFields(const TablesFigures& tables, JsonObject* json) {
  for (const auto& [name, figures] : tables) {
    const std::string prefix = absl::StrCat(kTable, name, ":");
    json->Add(prefix + "rows", figures.rows)
        .Add(prefix + "bytes", figures.bytes)
        .AddIfPresent(prefix + "rows_per_second", figures.rows_per_second)
        .Add(prefix + "keys_read", figures.keys_read)
        .Add(prefix + "rows_found", figures.rows_found);
  }
}

bool TakeTableField(absl::string_view name, absl::string_view value, TablesFigures* tables) {
  if (!absl::ConsumePrefix(&name, kTable)) return false;
  const size_t colon = name.rfind(':');
  if (colon == absl::string_view::npos) return true;  // A later version may have it.
  TableFigures& figures = (*tables)[std::string(name.substr(0, colon))];
  const absl::string_view figure = name.substr(colon + 1);
  double number = 0;
  if (figure == "rows") TakeCount(value, &figures.rows);
  if (figure == "bytes") TakeCount(value, &figures.bytes);
  if (figure == "keys_read") TakeCount(value, &figures.keys_read);
  if (figure == "rows_found") TakeCount(value, &figures.rows_found);
  if (figure == "rows_per_second" && absl::SimpleAtod(value, &number)) {
    figures.rows_per_second = number;
  }
  return true;
}

}  // namespace shoal
