#include "ml/data/csv_dataset.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "ml/data/csv_columns.h"
#include "ml/data/data_rules.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/data/ragged_rows.h"
#include "ml/data/records/text_lines.h"
#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

// A label column with more different words than this does not contain classes, but names or texts.
constexpr size_t kMostWords = 100000;

unsigned char AsByte(char c) { return static_cast<unsigned char>(c); }

// Appends the cells of a line. Returns false if a quote is not closed.
bool SplitCells(absl::string_view line, char delimiter, std::vector<absl::string_view>* cells) {
  cells->clear();
  while (true) {
    absl::string_view start = line;
    while (!start.empty() && start[0] != delimiter && absl::ascii_isspace(AsByte(start[0]))) {
      start.remove_prefix(1);
    }
    size_t from = 0;  // the search for the delimiter begins here
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
  // `classes` are the words that are labels, sorted; empty: labels are numbers.
  CsvReader(const CsvDatasetOptions& options, const std::string& path,
            std::vector<std::string> classes)
      : options_(options), path_(path), classes_(std::move(classes)) {}

  absl::Status Read() {
    RETURN_IF_ERROR(ForEachRow([this] { return ReadRow(); }));
    if (num_rows_ > 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path_, ": holds no examples; add some"));
  }

  // Returns the columns that the first line has.
  absl::StatusOr<CsvColumns> ReadColumns() {
    RETURN_IF_ERROR(ForEachRow([this] {
      is_done_ = true;
      return absl::OkStatus();
    }));
    if (num_columns_ > 0) return CsvColumns{names_, num_columns_, roles_.label};
    return absl::DataLossError(absl::StrCat(path_, ": holds no examples; add some"));
  }

  // Returns the different labels, sorted; none if the first of them is a number.
  absl::StatusOr<std::vector<std::string>> ReadWords() {
    std::set<std::string> words;
    RETURN_IF_ERROR(ForEachRow([&]() -> absl::Status {
      RETURN_IF_ERROR(CheckColumns());
      const absl::string_view label = cells_[roles_.label];
      float number = 0;
      if (words.empty() && (label.empty() || absl::SimpleAtof(label, &number))) {
        is_done_ = true;
        return absl::OkStatus();
      }
      if (label.empty()) return Wrong(absl::StrCat(ColumnName(roles_.label), " is empty"));
      if (absl::SimpleAtof(label, &number)) {
        return Wrong(absl::StrCat("label in ", ColumnName(roles_.label), " is the number ", label,
                                  ", but the first one is a word: labels are all words or all "
                                  "numbers"));
      }
      words.emplace(label);
      if (words.size() <= kMostWords) return absl::OkStatus();
      return Wrong(absl::StrCat("has the ", words.size(), "th different label in ",
                                ColumnName(roles_.label), "; is that the label (data.csv.label)?"));
    }));
    return std::vector<std::string>(words.begin(), words.end());
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Finish() {
    const auto columns = static_cast<int64_t>(roles_.numbers.size());
    std::vector<InMemoryDataset::Field> fields;
    if (columns > 0) {
      Tensor inputs(DataType::kFloat32, {num_rows_, columns});
      std::copy(inputs_.begin(), inputs_.end(), inputs.mutable_span<float>().begin());
      fields.push_back({kInputField, inputs});
    }
    if (options_.is_regression) {
      Tensor targets(DataType::kFloat32, {num_rows_, 1});
      std::copy(labels_.begin(), labels_.end(), targets.mutable_span<float>().begin());
      fields.push_back({kTargetField, targets});
    } else {
      Tensor labels(DataType::kInt32, {num_rows_});
      std::copy(labels_.begin(), labels_.end(), labels.mutable_span<int32_t>().begin());
      fields.push_back({kLabelField, labels});
    }
    for (size_t i = 0; i < ids_.size(); ++i) {
      InMemoryDataset::Field& field = fields.emplace_back();
      field.name = roles_.ids[i].name;
      field.ragged = std::move(ids_[i]);
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                     InMemoryDataset::Create(std::move(fields), classes_));
    return dataset;
  }

 private:
  // Calls `row` for the cells of each line after the names of the columns.
  absl::Status ForEachRow(absl::FunctionRef<absl::Status()> row) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines, TextLines::Open(path_));
    absl::string_view line;
    while (!is_done_) {
      ASSIGN_OR_RETURN(const bool has_line, lines->Next(&line));
      if (!has_line) break;
      line_ = lines->number();
      if (line_ == 1) line = absl::StripPrefix(line, "\xef\xbb\xbf");  // a byte order mark
      if (line_ == 1 &&
          (absl::StartsWith(line, "\xff\xfe") || absl::StartsWith(line, "\xfe\xff"))) {
        return absl::DataLossError(absl::StrCat(path_, ": is text in UTF-16; save it as UTF-8"));
      }
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      // A cell at the begin or the end may be empty where ids or numbers may be missing, also if
      // the delimiter is a tab.
      const bool may_be_empty = !options_.ids.empty() || options_.empty_number.has_value();
      if (!may_be_empty) line = absl::StripAsciiWhitespace(line);
      if (!SplitCells(line, options_.delimiter, &cells_)) return Wrong("has a quote that is open");
      if (num_columns_ == 0) {
        RETURN_IF_ERROR(ReadFirstLine());
        if (options_.has_header) continue;
      }
      RETURN_IF_ERROR(row());
    }
    return absl::OkStatus();
  }

  absl::Status Wrong(absl::string_view what) const {
    return absl::DataLossError(
        absl::StrCat(path_, ":", line_, ": ", what, "; correct or remove the line"));
  }

  std::string ColumnName(size_t column) const {
    if (options_.has_header) return absl::StrCat("column ", QuotedCell(names_[column]));
    return absl::StrCat("column ", column);
  }

  absl::Status ReadFirstLine() {
    num_columns_ = cells_.size();
    if (num_columns_ < 2 && options_.has_label) {
      return absl::DataLossError(absl::StrCat(
          path_, ":", line_, ": has one column; inputs and a label are at least two: is ",
          QuotedCell(std::string(1, options_.delimiter)), " the delimiter (data.csv.delimiter)?"));
    }
    if (options_.has_header) {
      float number = 0;
      const bool are_numbers =
          std::all_of(cells_.begin(), cells_.end(),
                      [&](absl::string_view cell) { return absl::SimpleAtof(cell, &number); });
      if (are_numbers) {
        return absl::InvalidArgumentError(
            absl::StrCat("data.csv.no_header: is not set, but ", path_, ":", line_,
                         " is all numbers; set it, or add a line with the columns' names"));
      }
      for (const absl::string_view cell : cells_) names_.emplace_back(cell);
    }
    ASSIGN_OR_RETURN(roles_, FindCsvRoles(options_, path_, names_, num_columns_));
    for (const CsvRoles::Ids& ids : roles_.ids) {
      ids_.emplace_back(!ids.ids->weights.empty());
      takes_mean_.push_back(options_.rules.TakesMean(ids.name));
    }
    return absl::OkStatus();
  }

  absl::Status CheckColumns() const {
    if (cells_.size() == num_columns_) return absl::OkStatus();
    return Wrong(
        absl::StrCat("has ", cells_.size(), " columns, the first line has ", num_columns_));
  }

  absl::Status ReadWord() {
    const absl::string_view word = cells_[roles_.label];
    const auto known = std::lower_bound(classes_.begin(), classes_.end(), word);
    if (known == classes_.end() || *known != word) {
      return Wrong(absl::StrCat("label in ", ColumnName(roles_.label), " is ", QuotedCell(word),
                                ", which no example has for training"));
    }
    labels_.push_back(static_cast<float>(known - classes_.begin()));
    return absl::OkStatus();
  }

  absl::StatusOr<float> ReadNumber(size_t column) const {
    float value = 0;
    if (cells_[column].empty()) {
      const bool is_input = !options_.has_label || column != roles_.label;
      return Wrong(
          absl::StrCat(ColumnName(column), " is empty",
                       is_input ? " (data.csv.empty_number gives such cells a value)" : ""));
    }
    if (absl::SimpleAtof(cells_[column], &value) && std::isfinite(value)) return value;
    return Wrong(absl::StrCat(ColumnName(column), " is ", QuotedCell(cells_[column]),
                              ", which is not a finite number"));
  }

  absl::Status ReadLabel() {
    if (!options_.has_label) {
      labels_.push_back(0);
      return absl::OkStatus();
    }
    if (!classes_.empty()) return ReadWord();
    ASSIGN_OR_RETURN(const float label, ReadNumber(roles_.label));
    labels_.push_back(label);
    return options_.is_regression ? CheckTarget(label) : CheckClass(roles_.label, label);
  }

  absl::Status ReadRow() {
    RETURN_IF_ERROR(CheckColumns());
    for (const size_t column : roles_.numbers) {
      if (cells_[column].empty() && options_.empty_number.has_value()) {
        inputs_.push_back(*options_.empty_number);
        continue;
      }
      ASSIGN_OR_RETURN(inputs_.emplace_back(), ReadNumber(column));
    }
    RETURN_IF_ERROR(ReadLabel());
    RETURN_IF_ERROR(ReadIds());
    ++num_rows_;
    is_done_ = options_.max_examples > 0 && num_rows_ == options_.max_examples;
    return absl::OkStatus();
  }

  absl::Status ReadIds() {
    for (size_t i = 0; i < ids_.size(); ++i) {
      const size_t column = roles_.ids[i].column;
      list_.Clear();
      std::string wrong = AddIds(cells_[column], *roles_.ids[i].ids, &list_);
      if (wrong.empty() && takes_mean_[i]) wrong = WrongWeight(list_.weights);
      if (!wrong.empty()) {
        return Wrong(
            absl::StrCat(ColumnName(column), " is ", QuotedCell(cells_[column]), ", ", wrong));
      }
      ids_[i].AddExample(list_.keys, list_.weights);
    }
    return absl::OkStatus();
  }

  absl::Status CheckTarget(float target) const {
    const std::string wanted = WantedTarget(target, options_.rules);
    if (wanted.empty()) return absl::OkStatus();
    return Wrong(absl::StrCat("label in ", ColumnName(roles_.label), " is ", target, ": ", wanted));
  }

  absl::Status CheckClass(size_t column, float value) const {
    if (std::floor(value) != value) {
      return Wrong(absl::StrCat("label in ", ColumnName(column), " is ", QuotedCell(cells_[column]),
                                ", which is not a class (data.csv.regression predicts numbers)"));
    }
    if (value >= 0 && value < static_cast<float>(options_.num_classes)) return absl::OkStatus();
    return Wrong(absl::StrCat("label in ", ColumnName(column), " is ", cells_[column], ": ",
                              WantedClass(options_.num_classes, options_.rules,
                                          " (set data.classes if there are more)")));
  }

  const CsvDatasetOptions& options_;
  const std::string path_;
  const std::vector<std::string> classes_;
  bool is_done_ = false;  // The remaining lines are not wanted.
  int64_t line_ = 0;
  std::vector<absl::string_view> cells_;  // of the line
  std::vector<std::string> names_;        // names of the columns, if there is a header
  size_t num_columns_ = 0;                // 0: before the first line
  CsvRoles roles_;
  int64_t num_rows_ = 0;
  std::vector<float> inputs_, labels_;
  std::vector<RaggedRows> ids_;   // of each roles_.ids
  std::vector<bool> takes_mean_;  // of each roles_.ids
  IdList list_;                   // of a cell
};

// Returns the words that are labels; none if labels are numbers.
absl::StatusOr<std::vector<std::string>> FindWords(const CsvDatasetOptions& options) {
  if (!options.has_label || options.is_regression) return std::vector<std::string>();
  const std::string& path = options.classes_path.empty() ? options.path : options.classes_path;
  const absl::StatusOr<std::vector<std::string>> words = CsvReader(options, path, {}).ReadWords();
  if (path == options.path || !absl::IsNotFound(words.status())) return words;
  // Numbers need no other table.
  ASSIGN_OR_RETURN(const std::vector<std::string> own,
                   CsvReader(options, options.path, {}).ReadWords());
  if (own.empty()) return own;
  return words.status();
}

}  // namespace

absl::StatusOr<CsvColumns> ReadCsvColumns(const CsvDatasetOptions& options) {
  return CsvReader(options, options.path, {}).ReadColumns();
}

// Checks that a table has the columns of the training split: a model knows them by their order.
static absl::Status CheckSameColumns(const CsvDatasetOptions& options) {
  const std::string& train = options.classes_path;
  if (!options.has_header || train.empty() || train == options.path) return absl::OkStatus();
  CsvDatasetOptions of_train = options;
  of_train.path = train;
  const absl::StatusOr<CsvColumns> wanted = ReadCsvColumns(of_train);
  const absl::StatusOr<CsvColumns> columns = ReadCsvColumns(options);
  // The code that reads a table reports what is wrong with the table itself.
  if (!wanted.ok() || !columns.ok() || wanted->names == columns->names) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      options.path, ": its columns are ", absl::StrJoin(columns->names, ", ").substr(0, 400),
      "; those of ", train, " are ", absl::StrJoin(wanted->names, ", ").substr(0, 400),
      "; give both the same columns in the same order"));
}

absl::StatusOr<std::unique_ptr<Dataset>> LoadCsvDataset(const CsvDatasetOptions& options) {
  RETURN_IF_ERROR(CheckSameColumns(options));
  ASSIGN_OR_RETURN(std::vector<std::string> words, FindWords(options));
  CsvReader reader(options, options.path, std::move(words));
  RETURN_IF_ERROR(reader.Read());
  return reader.Finish();
}

}  // namespace shoal
