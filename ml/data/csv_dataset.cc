#include "ml/data/csv_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 36;

// Cells and names of columns may be long; errors have one line.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 40)), text.size() > 40 ? "..." : "",
                      "\"");
}

// Appends the cells of a line; false if a quote is not closed.
bool SplitCells(absl::string_view line, char delimiter, std::vector<absl::string_view>* cells) {
  cells->clear();
  while (true) {
    const absl::string_view start = absl::StripLeadingAsciiWhitespace(line);
    size_t from = 0;  // where to look for the delimiter
    const bool is_quoted = !start.empty() && start[0] == '"';
    if (is_quoted) {
      const size_t open = static_cast<size_t>(start.data() - line.data());
      const size_t close = line.find('"', open + 1);
      if (close == absl::string_view::npos) return false;
      from = close + 1;
    }
    const size_t end = line.find(delimiter, from);
    absl::string_view cell = absl::StripAsciiWhitespace(line.substr(0, end));
    if (is_quoted && cell.size() >= 2 && cell.back() == '"') {
      cell = absl::StripAsciiWhitespace(cell.substr(1, cell.size() - 2));
    }
    cells->push_back(cell);
    if (end == absl::string_view::npos) return true;
    line.remove_prefix(end + 1);
  }
}

// Reads one file, line by line.
class CsvReader {
 public:
  explicit CsvReader(const CsvDatasetOptions& options) : options_(options) {}

  absl::Status Read(absl::string_view text) {
    text = absl::StripPrefix(text, "\xef\xbb\xbf");  // a byte order mark
    while (!text.empty() && !IsFull()) {
      const size_t end = text.find('\n');
      const absl::string_view line = absl::StripAsciiWhitespace(text.substr(0, end));
      text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
      ++line_;
      if (line.empty()) continue;
      if (!SplitCells(line, options_.delimiter, &cells_)) return Wrong("has a quote that is open");
      if (num_columns_ == 0) {
        RETURN_IF_ERROR(ReadFirstLine());
        if (options_.has_header) continue;
      }
      RETURN_IF_ERROR(ReadRow());
    }
    if (num_rows_ > 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(options_.path, ": holds no examples; add some"));
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Finish() const {
    const int64_t columns = static_cast<int64_t>(num_columns_) - (options_.has_label ? 1 : 0);
    Tensor inputs(DataType::kFloat32, {num_rows_, columns});
    std::copy(inputs_.begin(), inputs_.end(), inputs.mutable_span<float>().begin());
    std::vector<InMemoryDataset::Field> fields = {{kInputField, inputs}};
    if (options_.is_regression) {
      Tensor targets(DataType::kFloat32, {num_rows_, 1});
      std::copy(labels_.begin(), labels_.end(), targets.mutable_span<float>().begin());
      fields.push_back({kTargetField, targets});
    } else {
      Tensor labels(DataType::kInt32, {num_rows_});
      std::copy(labels_.begin(), labels_.end(), labels.mutable_span<int32_t>().begin());
      fields.push_back({kLabelField, labels});
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, InMemoryDataset::Create(std::move(fields)));
    return dataset;
  }

 private:
  bool IsFull() const { return options_.max_examples > 0 && num_rows_ == options_.max_examples; }

  absl::Status Wrong(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat(options_.path, ":", line_, ": ", what, "; correct or remove the line"));
  }

  std::string ColumnName(size_t column) const {
    if (options_.has_header) return absl::StrCat("column ", Quoted(names_[column]));
    return absl::StrCat("column ", column);
  }

  absl::Status ReadFirstLine() {
    num_columns_ = cells_.size();
    if (num_columns_ < 2 && options_.has_label) {
      return absl::DataLossError(absl::StrCat(
          options_.path, ":", line_, ": has one column; inputs and a label are at least two: is ",
          Quoted(std::string(1, options_.delimiter)), " the delimiter (data.csv.delimiter)?"));
    }
    if (options_.has_header) {
      float number = 0;
      const bool are_numbers =
          std::all_of(cells_.begin(), cells_.end(),
                      [&](absl::string_view cell) { return absl::SimpleAtof(cell, &number); });
      if (are_numbers) {
        return absl::InvalidArgumentError(
            absl::StrCat("data.csv.no_header: is not set, but ", options_.path, ":", line_,
                         " is all numbers; set it, or add a line with the columns' names"));
      }
      for (const absl::string_view cell : cells_) names_.emplace_back(cell);
    }
    return FindLabel();
  }

  absl::Status FindLabel() {
    if (!options_.has_label) {
      label_column_ = num_columns_;
      return absl::OkStatus();
    }
    const auto named = std::find(names_.begin(), names_.end(), options_.label);
    const int64_t columns = static_cast<int64_t>(num_columns_);
    int64_t index = -1;
    if (named != names_.end()) {
      index = named - names_.begin();
    } else if (!options_.label.empty() && !absl::SimpleAtoi(options_.label, &index)) {
      index = columns;
    }
    if (index < 0) index += columns;
    if (index >= 0 && index < columns) {
      label_column_ = static_cast<size_t>(index);
      return absl::OkStatus();
    }
    const std::string names =
        options_.has_header ? absl::StrCat(absl::StrJoin(names_, ", ").substr(0, 400), ", or ")
                            : "";
    return absl::InvalidArgumentError(absl::StrCat("data.csv.label: ", Quoted(options_.label),
                                                   " is no column of ", options_.path, "; it is ",
                                                   names, "0 to ", columns - 1));
  }

  absl::Status ReadRow() {
    if (cells_.size() != num_columns_) {
      return Wrong(
          absl::StrCat("has ", cells_.size(), " columns, the first line has ", num_columns_));
    }
    for (size_t column = 0; column < num_columns_; ++column) {
      float value = 0;
      if (cells_[column].empty()) return Wrong(absl::StrCat(ColumnName(column), " is empty"));
      if (!absl::SimpleAtof(cells_[column], &value) || !std::isfinite(value)) {
        return Wrong(absl::StrCat(ColumnName(column), " is ", Quoted(cells_[column]),
                                  ", which is no finite number"));
      }
      if (column != label_column_) {
        inputs_.push_back(value);
        continue;
      }
      if (!options_.is_regression) RETURN_IF_ERROR(CheckClass(column, value));
      labels_.push_back(value);
    }
    if (!options_.has_label) labels_.push_back(0);
    ++num_rows_;
    return absl::OkStatus();
  }

  absl::Status CheckClass(size_t column, float value) const {
    if (std::floor(value) != value) {
      return Wrong(absl::StrCat("label in ", ColumnName(column), " is ", Quoted(cells_[column]),
                                ", which is no class (data.csv.regression predicts numbers)"));
    }
    if (value >= 0 && value < static_cast<float>(options_.num_classes)) return absl::OkStatus();
    return Wrong(absl::StrCat("label in ", ColumnName(column), " is ", cells_[column],
                              ": it must be at least 0 and below the number of classes, ",
                              options_.num_classes, " (data.classes)"));
  }

  const CsvDatasetOptions& options_;
  int64_t line_ = 0;
  std::vector<absl::string_view> cells_;  // of the line
  std::vector<std::string> names_;        // of the columns, if there is a header
  size_t num_columns_ = 0;                // 0: before the first line
  size_t label_column_ = 0;
  int64_t num_rows_ = 0;
  std::vector<float> inputs_, labels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> LoadCsvDataset(const CsvDatasetOptions& options) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::StatusOr<std::string> text = ReadFile(*files, options.path, kLargestFile);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat(text.status().message(), "; check data.directory"));
  }
  CsvReader reader(options);
  RETURN_IF_ERROR(reader.Read(*text));
  return reader.Finish();
}

}  // namespace shoal
