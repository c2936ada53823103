#include "ml/data/csv_columns.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "ml/data/dataset.h"

namespace shoal {
namespace {

bool IsPattern(absl::string_view column) { return absl::EndsWith(column, "*"); }

class RoleFinder {
 public:
  RoleFinder(const CsvDatasetOptions& options, const std::string& path,
             const std::vector<std::string>& names, size_t count)
      : options_(options), path_(path), names_(names), count_(count), is_taken_(count, false) {}

  absl::StatusOr<CsvRoles> Find() {
    RETURN_IF_ERROR(FindLabel());
    RETURN_IF_ERROR(FindIds());
    RETURN_IF_ERROR(FindNumbers());
    return std::move(roles_);
  }

 private:
  // Returns the index of a column of the run's tables, which have the label, or of this table if it
  // has the label, too.
  size_t ColumnOfIndex(int64_t index) const {
    const auto columns = static_cast<int64_t>(count_) + (options_.has_label ? 0 : 1);
    if (index < 0) index += columns;
    if (index < 0 || index >= columns) return count_;
    if (options_.has_label) return static_cast<size_t>(index);
    int64_t label = -1;
    if (!options_.label.empty() && !absl::SimpleAtoi(options_.label, &label)) return count_;
    if (label < 0) label += columns;
    if (index == label) return count_;
    return static_cast<size_t>(index > label ? index - 1 : index);
  }

  // Returns the column with this name or index, or the number of columns if there is none.
  size_t FindColumn(const std::string& name) const {
    const auto named = std::find(names_.begin(), names_.end(), name);
    if (named != names_.end()) return static_cast<size_t>(named - names_.begin());
    int64_t index = 0;
    return absl::SimpleAtoi(name, &index) ? ColumnOfIndex(index) : count_;
  }

  // Returns what columns there are, for an error.
  std::string KnownColumns() const {
    return absl::StrCat(
        names_.empty() ? "" : absl::StrCat(absl::StrJoin(names_, ", ").substr(0, 400), ", or "),
        "0 to ", count_ - 1);
  }

  absl::Status FindLabel() {
    if (!options_.has_label) {
      roles_.label = count_;
      return absl::OkStatus();
    }
    roles_.label = options_.label.empty() ? count_ - 1 : FindColumn(options_.label);
    if (roles_.label < count_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("data.csv.label: ", QuotedCell(options_.label),
                                                   " is not a column of ", path_, "; it is ",
                                                   KnownColumns()));
  }

  absl::Status FindIds() {
    // Names go before patterns, which are for the columns that are left.
    std::vector<std::pair<size_t, CsvRoles::Ids>> found;
    for (const bool is_pattern : {false, true}) {
      for (size_t entry = 0; entry < options_.ids.size(); ++entry) {
        const IdColumn& ids = options_.ids[entry];
        if (IsPattern(ids.column) != is_pattern) continue;
        const std::string what =
            absl::StrCat("ids ", QuotedCell(ids.column), ids.entry.empty() ? "" : " (", ids.entry,
                         ids.entry.empty() ? "" : ")");
        RETURN_IF_ERROR(Take(what, ids.column, [&](size_t column) {
          const std::string name = FieldNameOf(ids, names_.empty() ? ids.column : names_[column]);
          found.push_back({entry, {column, name, &ids}});
          if (name != kInputField && name != kLabelField && name != kTargetField) {
            return absl::OkStatus();
          }
          return Wrong(what, absl::StrCat("would be the field ", name,
                                          ", which the data has already; give it another name"));
        }));
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& ids : found) roles_.ids.push_back(std::move(ids.second));
    return absl::OkStatus();
  }

  absl::Status FindNumbers() {
    if (options_.numbers.empty()) {
      for (size_t column = 0; column < count_; ++column) {
        if (column != roles_.label && !is_taken_[column]) roles_.numbers.push_back(column);
      }
      return absl::OkStatus();
    }
    std::vector<std::pair<size_t, size_t>> found;
    for (const bool is_pattern : {false, true}) {
      for (size_t entry = 0; entry < options_.numbers.size(); ++entry) {
        const std::string& name = options_.numbers[entry];
        if (IsPattern(name) != is_pattern) continue;
        const std::string what = absl::StrCat("numbers ", QuotedCell(name), " (data.numbers)");
        RETURN_IF_ERROR(Take(what, name, [&](size_t column) {
          found.emplace_back(entry, column);
          return absl::OkStatus();
        }));
      }
    }
    std::sort(found.begin(), found.end());
    for (const auto& number : found) roles_.numbers.push_back(number.second);
    return absl::OkStatus();
  }

  absl::Status Wrong(absl::string_view what, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": column of ", what, " ", why));
  }

  // Calls `add` for each column that the name, index or pattern stands for, and marks it as taken.
  absl::Status Take(absl::string_view what, const std::string& name,
                    absl::FunctionRef<absl::Status(size_t column)> add) {
    if (IsPattern(name)) return TakePattern(what, absl::StripSuffix(name, "*"), add);
    const size_t column = FindColumn(name);
    if (column == count_) {
      return Wrong(what, absl::StrCat("is not there; the columns are ", KnownColumns()));
    }
    if (column == roles_.label) {
      return Wrong(what,
                   "is the label's column (data.csv.label); name another column, or another label");
    }
    if (is_taken_[column]) return Wrong(what, "is named twice; drop one of them");
    is_taken_[column] = true;
    return add(column);
  }

  absl::Status TakePattern(absl::string_view what, absl::string_view begin,
                           absl::FunctionRef<absl::Status(size_t column)> add) {
    bool is_found = false;
    for (size_t column = 0; column < names_.size(); ++column) {
      if (!absl::StartsWith(names_[column], begin) || column == roles_.label || is_taken_[column]) {
        continue;
      }
      is_found = true;
      is_taken_[column] = true;
      RETURN_IF_ERROR(add(column));
    }
    if (is_found) return absl::OkStatus();
    return Wrong(what, absl::StrCat("stands for no column; the columns are ", KnownColumns()));
  }

  const CsvDatasetOptions& options_;
  const std::string& path_;
  const std::vector<std::string>& names_;  // empty: the table has no names
  const size_t count_;
  std::vector<bool> is_taken_;  // columns of ids and of numbers
  CsvRoles roles_;
};

}  // namespace

absl::StatusOr<CsvRoles> FindCsvRoles(const CsvDatasetOptions& options, const std::string& path,
                                      const std::vector<std::string>& names, size_t count) {
  return RoleFinder(options, path, names, count).Find();
}

std::string QuotedCell(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 40)), text.size() > 40 ? "..." : "",
                      "\"");
}

}  // namespace shoal
