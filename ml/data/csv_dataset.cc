#include "ml/data/csv_dataset.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/data/ragged_rows.h"
#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

constexpr uint64_t kLargestFile = uint64_t{1} << 36;
constexpr size_t kLongestHead = size_t{1} << 20;  // Bytes in which the first line ends.
// A label column with more different words than this does not contain classes, but names or texts.
constexpr size_t kMostWords = 100000;

// Cells and names of columns may be long; errors have one line.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, 40)), text.size() > 40 ? "..." : "",
                      "\"");
}

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

  absl::Status Read(absl::string_view text) {
    RETURN_IF_ERROR(ForEachRow(text, [this] { return ReadRow(); }));
    if (num_rows_ > 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(path_, ": holds no examples; add some"));
  }

  // Returns the columns that the first line has.
  absl::StatusOr<CsvColumns> ReadColumns(absl::string_view text) {
    RETURN_IF_ERROR(ForEachRow(text, [this] {
      is_done_ = true;
      return absl::OkStatus();
    }));
    if (num_columns_ > 0) return CsvColumns{names_, num_columns_, label_column_};
    return absl::DataLossError(absl::StrCat(path_, ": holds no examples; add some"));
  }

  // Returns the different labels, sorted; none if the first of them is a number.
  absl::StatusOr<std::vector<std::string>> ReadWords(absl::string_view text) {
    std::set<std::string> words;
    RETURN_IF_ERROR(ForEachRow(text, [&]() -> absl::Status {
      RETURN_IF_ERROR(CheckColumns());
      const absl::string_view label = cells_[label_column_];
      float number = 0;
      if (words.empty() && (label.empty() || absl::SimpleAtof(label, &number))) {
        is_done_ = true;
        return absl::OkStatus();
      }
      if (label.empty()) return Wrong(absl::StrCat(ColumnName(label_column_), " is empty"));
      if (absl::SimpleAtof(label, &number)) {
        return Wrong(absl::StrCat("label in ", ColumnName(label_column_), " is the number ", label,
                                  ", but the first one is a word: labels are all words or all "
                                  "numbers"));
      }
      words.emplace(label);
      if (words.size() <= kMostWords) return absl::OkStatus();
      return Wrong(absl::StrCat("has the ", words.size(), "th different label in ",
                                ColumnName(label_column_),
                                "; is that the label (data.csv.label)?"));
    }));
    return std::vector<std::string>(words.begin(), words.end());
  }

  absl::StatusOr<std::unique_ptr<Dataset>> Finish() const {
    const int64_t columns =
        static_cast<int64_t>(num_columns_ - id_fields_.size()) - (options_.has_label ? 1 : 0);
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
    for (const IdField& ids : id_fields_) {
      InMemoryDataset::Field& field = fields.emplace_back();
      field.name = ids.name;
      field.ragged = ids.rows;
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                     InMemoryDataset::Create(std::move(fields), classes_));
    return dataset;
  }

 private:
  // A column of ids.
  struct IdField {
    size_t column = 0;
    std::string name;
    const IdColumn* ids = nullptr;
    RaggedRows rows = RaggedRows();
  };

  // Calls `row` for the cells of each line after the names of the columns.
  absl::Status ForEachRow(absl::string_view text, absl::FunctionRef<absl::Status()> row) {
    text = absl::StripPrefix(text, "\xef\xbb\xbf");  // a byte order mark
    while (!text.empty() && !is_done_) {
      const size_t end = text.find('\n');
      absl::string_view line = text.substr(0, end);
      text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
      ++line_;
      if (absl::StripAsciiWhitespace(line).empty()) continue;
      // A cell of ids at the begin or the end may be empty, also if the delimiter is a tab.
      line =
          options_.ids.empty() ? absl::StripAsciiWhitespace(line) : absl::StripSuffix(line, "\r");
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
    if (options_.has_header) return absl::StrCat("column ", Quoted(names_[column]));
    return absl::StrCat("column ", column);
  }

  absl::Status ReadFirstLine() {
    num_columns_ = cells_.size();
    if (num_columns_ < 2 && options_.has_label) {
      return absl::DataLossError(absl::StrCat(
          path_, ":", line_, ": has one column; inputs and a label are at least two: is ",
          Quoted(std::string(1, options_.delimiter)), " the delimiter (data.csv.delimiter)?"));
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
    RETURN_IF_ERROR(FindLabel());
    return FindIds();
  }

  // Returns the column with this name or index, or the number of columns if there is none.
  size_t FindColumn(const std::string& name) const {
    const auto named = std::find(names_.begin(), names_.end(), name);
    if (named != names_.end()) return static_cast<size_t>(named - names_.begin());
    const auto columns = static_cast<int64_t>(num_columns_);
    int64_t index = columns;
    if (!absl::SimpleAtoi(name, &index)) return num_columns_;
    if (index < 0) index += columns;
    return index >= 0 && index < columns ? static_cast<size_t>(index) : num_columns_;
  }

  // Returns what columns there are, for an error.
  std::string KnownColumns() const {
    return absl::StrCat(options_.has_header
                            ? absl::StrCat(absl::StrJoin(names_, ", ").substr(0, 400), ", or ")
                            : "",
                        "0 to ", num_columns_ - 1);
  }

  absl::Status FindIds() {
    is_ids_.assign(num_columns_, false);
    for (const bool is_pattern : {false, true}) {
      for (const IdColumn& ids : options_.ids) {
        if (absl::EndsWith(ids.column, "*") != is_pattern) continue;
        RETURN_IF_ERROR(is_pattern ? AddPattern(ids) : AddColumn(ids, FindColumn(ids.column)));
      }
    }
    // The order of the fields is that of the entries, and of the columns within a pattern.
    std::stable_sort(id_fields_.begin(), id_fields_.end(), [](const IdField& a, const IdField& b) {
      return std::less<>()(a.ids, b.ids);
    });
    return absl::OkStatus();
  }

  absl::Status AddColumn(const IdColumn& ids, size_t column) {
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": column of ids ", Quoted(ids.column), " ", what));
    };
    if (column == num_columns_) {
      return wrong(absl::StrCat("is not there; the columns are ", KnownColumns()));
    }
    if (column == label_column_) {
      return wrong("is the label's column (data.csv.label); name another column, or another label");
    }
    if (is_ids_[column]) return wrong("is named twice; drop one of them");
    is_ids_[column] = true;
    id_fields_.push_back(
        {column, FieldNameOf(ids, options_.has_header ? names_[column] : ids.column), &ids});
    const std::string& name = id_fields_.back().name;
    if (name == kInputField || name == kLabelField || name == kTargetField) {
      return wrong(absl::StrCat("would be the field ", name,
                                ", which the data has already; give it another name"));
    }
    return absl::OkStatus();
  }

  absl::Status AddPattern(const IdColumn& ids) {
    const absl::string_view begin = absl::StripSuffix(ids.column, "*");
    bool is_found = false;
    for (size_t column = 0; column < names_.size(); ++column) {
      if (!absl::StartsWith(names_[column], begin) || column == label_column_ || is_ids_[column]) {
        continue;
      }
      is_found = true;
      RETURN_IF_ERROR(AddColumn(ids, column));
    }
    if (is_found) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(path_, ": no column of ids has a name like ",
                                                   Quoted(ids.column), "; the columns are ",
                                                   KnownColumns()));
  }

  absl::Status FindLabel() {
    if (!options_.has_label) {
      label_column_ = num_columns_;
      return absl::OkStatus();
    }
    label_column_ = options_.label.empty() ? num_columns_ - 1 : FindColumn(options_.label);
    if (label_column_ < num_columns_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("data.csv.label: ", Quoted(options_.label),
                                                   " is not a column of ", path_, "; it is ",
                                                   KnownColumns()));
  }

  absl::Status CheckColumns() const {
    if (cells_.size() == num_columns_) return absl::OkStatus();
    return Wrong(
        absl::StrCat("has ", cells_.size(), " columns, the first line has ", num_columns_));
  }

  absl::Status ReadWord() {
    const absl::string_view word = cells_[label_column_];
    const auto known = std::lower_bound(classes_.begin(), classes_.end(), word);
    if (known == classes_.end() || *known != word) {
      return Wrong(absl::StrCat("label in ", ColumnName(label_column_), " is ", Quoted(word),
                                ", which no example has for training"));
    }
    labels_.push_back(static_cast<float>(known - classes_.begin()));
    return absl::OkStatus();
  }

  absl::Status ReadRow() {
    RETURN_IF_ERROR(CheckColumns());
    for (size_t column = 0; column < num_columns_; ++column) {
      if (is_ids_[column]) continue;
      if (column == label_column_ && !classes_.empty()) {
        RETURN_IF_ERROR(ReadWord());
        continue;
      }
      float value = 0;
      if (cells_[column].empty()) return Wrong(absl::StrCat(ColumnName(column), " is empty"));
      if (!absl::SimpleAtof(cells_[column], &value) || !std::isfinite(value)) {
        return Wrong(absl::StrCat(ColumnName(column), " is ", Quoted(cells_[column]),
                                  ", which is not a finite number"));
      }
      if (column != label_column_) {
        inputs_.push_back(value);
        continue;
      }
      if (!options_.is_regression) RETURN_IF_ERROR(CheckClass(column, value));
      labels_.push_back(value);
    }
    if (!options_.has_label) labels_.push_back(0);
    RETURN_IF_ERROR(ReadIds());
    ++num_rows_;
    is_done_ = options_.max_examples > 0 && num_rows_ == options_.max_examples;
    return absl::OkStatus();
  }

  absl::Status ReadIds() {
    for (IdField& field : id_fields_) {
      const absl::string_view cell = cells_[field.column];
      keys_.clear();
      const std::string wrong = AddIds(cell, *field.ids, &keys_);
      if (!wrong.empty()) {
        return Wrong(absl::StrCat(ColumnName(field.column), " is ", Quoted(cell), ", ", wrong));
      }
      field.rows.AddExample(keys_);
    }
    return absl::OkStatus();
  }

  absl::Status CheckClass(size_t column, float value) const {
    if (std::floor(value) != value) {
      return Wrong(absl::StrCat("label in ", ColumnName(column), " is ", Quoted(cells_[column]),
                                ", which is not a class (data.csv.regression predicts numbers)"));
    }
    if (value >= 0 && value < static_cast<float>(options_.num_classes)) return absl::OkStatus();
    return Wrong(absl::StrCat("label in ", ColumnName(column), " is ", cells_[column],
                              ": it must be at least 0 and below the number of classes, ",
                              options_.num_classes, " (set data.classes if there are more)"));
  }

  const CsvDatasetOptions& options_;
  const std::string path_;
  const std::vector<std::string> classes_;
  bool is_done_ = false;  // The remaining lines are not wanted.
  int64_t line_ = 0;
  std::vector<absl::string_view> cells_;  // of the line
  std::vector<std::string> names_;        // names of the columns, if there is a header
  size_t num_columns_ = 0;                // 0: before the first line
  size_t label_column_ = 0;
  int64_t num_rows_ = 0;
  std::vector<float> inputs_, labels_;
  std::vector<bool> is_ids_;  // indexed by column
  std::vector<IdField> id_fields_;
  std::vector<int64_t> keys_;  // of a cell
};

absl::StatusOr<std::string> ReadTable(const std::string& path) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  absl::StatusOr<std::string> text = ReadFile(*files, path, kLargestFile);
  if (text.ok()) return text;
  return absl::Status(text.status().code(),
                      absl::StrCat(text.status().message(), "; check data.directory"));
}

// Returns the words that are labels; none if labels are numbers. `text` is the table itself.
absl::StatusOr<std::vector<std::string>> FindWords(const CsvDatasetOptions& options,
                                                   const std::string& text) {
  if (!options.has_label || options.is_regression) return std::vector<std::string>();
  if (options.classes_path.empty() || options.classes_path == options.path) {
    return CsvReader(options, options.path, {}).ReadWords(text);
  }
  const absl::StatusOr<std::string> other = ReadTable(options.classes_path);
  if (other.ok()) return CsvReader(options, options.classes_path, {}).ReadWords(*other);
  // Numbers need no other table.
  ASSIGN_OR_RETURN(const std::vector<std::string> own,
                   CsvReader(options, options.path, {}).ReadWords(text));
  if (own.empty()) return own;
  return other.status();
}

}  // namespace

absl::StatusOr<CsvColumns> ReadCsvColumns(const CsvDatasetOptions& options) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files->OpenForRead(options.path));
  std::string text(kLongestHead, '\0');
  ASSIGN_OR_RETURN(const size_t size, file->Read(0, absl::MakeSpan(&text[0], text.size())));
  text.resize(size);
  // A line that is cut off says nothing.
  const size_t end = text.rfind('\n');
  if (end != std::string::npos) text.resize(end + 1);
  return CsvReader(options, options.path, {}).ReadColumns(text);
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
  ASSIGN_OR_RETURN(const std::string text, ReadTable(options.path));
  RETURN_IF_ERROR(CheckSameColumns(options));
  ASSIGN_OR_RETURN(std::vector<std::string> words, FindWords(options, text));
  CsvReader reader(options, options.path, std::move(words));
  RETURN_IF_ERROR(reader.Read(text));
  return reader.Finish();
}

}  // namespace shoal
