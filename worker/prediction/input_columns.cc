#include "worker/prediction/input_columns.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "ml/data/csv_dataset.h"
#include "ml/data/data_format.h"
#include "ml/data/ids/id_options.h"

namespace shoal {
namespace {

using Names = std::vector<std::string>;

// The columns of a table that the run was trained or evaluated on.
struct RunColumns {
  std::string path;
  CsvColumns all;
  Names inputs;  // The names without the label's.
};

CsvDatasetOptions OptionsFor(const v1::DataConfig& config, const std::string& path) {
  CsvDatasetOptions options;
  options.path = path;
  options.label = config.csv().label();
  if (!config.csv().delimiter().empty()) options.delimiter = config.csv().delimiter()[0];
  // Cells of ids and of numbers may be empty at the ends of a line.
  options.ids = IdColumnsOf(config);
  if (config.csv().has_empty_number()) options.empty_number = 0;
  return options;
}

// data.csv.no_header may have been given for the file of --input, so the table says it itself.
absl::StatusOr<RunColumns> ColumnsOfRun(const v1::DataConfig& config) {
  absl::Status status = absl::NotFoundError(
      "the run was not trained on CSV files; give --input a .npy file or images");
  const bool may_be_csv = config.format() == v1::DataConfig::FORMAT_CSV ||
                          config.format() == v1::DataConfig::FORMAT_UNSPECIFIED;
  if (!may_be_csv || config.directory().empty()) return status;
  for (const char* name : {"train.csv", "test.csv"}) {
    RunColumns columns;
    const absl::StatusOr<std::string> path = TextPath(config.directory(), name);
    status = path.status();
    if (!path.ok()) continue;
    columns.path = *path;
    CsvDatasetOptions options = OptionsFor(config, columns.path);
    for (const bool has_header : {true, false}) {
      options.has_header = has_header;
      absl::StatusOr<CsvColumns> read = ReadCsvColumns(options);
      status = read.status();
      if (!read.ok()) continue;
      columns.all = *std::move(read);
      columns.inputs = columns.all.names;
      if (has_header) {
        columns.inputs.erase(columns.inputs.begin() +
                             static_cast<std::ptrdiff_t>(columns.all.label));
      }
      return columns;
    }
  }
  return status;
}

bool Has(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool AreDistinct(const Names& names) {
  return std::set<std::string>(names.begin(), names.end()).size() == names.size();
}

// Returns a hint if the first line looks like an example.
std::string NoHeaderHint(const Names& names) {
  float number = 0;
  if (std::none_of(names.begin(), names.end(),
                   [&](const std::string& name) { return absl::SimpleAtof(name, &number); })) {
    return "";
  }
  return "; if its first line is an example, give --set=data.csv.no_header=true";
}

// Returns what is wrong with the names, or "".
std::string WrongName(const RunColumns& run, const Names& names) {
  for (const std::string& wanted : run.inputs) {
    if (Has(names, wanted)) continue;
    return absl::StrCat("lacks the column \"", wanted, "\", which ", run.path, " has; add it",
                        NoHeaderHint(names));
  }
  const std::string& label = run.all.names[run.all.label];
  if (Has(names, label)) {
    return absl::StrCat("has the column \"", label,
                        "\", which is the label that the model predicts; remove the column");
  }
  for (const std::string& name : names) {
    if (Has(run.inputs, name)) continue;
    return absl::StrCat("has the column \"", name, "\", which ", run.path,
                        " does not have; remove the column");
  }
  if (names == run.inputs) return "";
  return absl::StrCat("has its columns in another order than ", run.path, "; bring them to ",
                      absl::StrJoin(run.inputs, ", ").substr(0, 400));
}

// Returns what is wrong with the number of columns, or "".
std::string WrongCount(const RunColumns& run, size_t count) {
  if (count + 1 == run.all.count) return "";
  if (count == run.all.count) {
    return absl::StrCat("has ", count, " columns, as ", run.path,
                        " has with the label that the model predicts; remove column ",
                        run.all.label, " (from 0)");
  }
  return absl::StrCat("has ", count, count == 1 ? " column" : " columns", ", but ", run.path,
                      " has ", run.all.count - 1, " besides the label; give as many");
}

}  // namespace

absl::Status CheckInputColumns(const v1::DataConfig& config, const std::string& file) {
  const absl::StatusOr<RunColumns> run = ColumnsOfRun(config);
  if (!run.ok()) return absl::OkStatus();
  CsvDatasetOptions options = OptionsFor(config, file);
  options.has_label = false;
  options.has_header = !config.csv().no_header();
  const absl::StatusOr<CsvColumns> input = ReadCsvColumns(options);
  if (!input.ok()) return absl::OkStatus();
  const bool are_named = !run->all.names.empty() && !input->names.empty();
  const bool are_distinct = AreDistinct(run->all.names) && AreDistinct(input->names);
  const std::string wrong =
      are_named && are_distinct ? WrongName(*run, input->names) : WrongCount(*run, input->count);
  if (wrong.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("--input: ", file, " ", wrong));
}

}  // namespace shoal
