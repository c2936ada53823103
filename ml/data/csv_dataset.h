#ifndef SHOAL_ML_DATA_CSV_DATASET_H_
#define SHOAL_ML_DATA_CSV_DATASET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/data/dataset.h"
#include "ml/data/ids/id_column.h"

namespace shoal {

struct CsvDatasetOptions {
  std::string path;
  std::string label;  // a column's name or index; negative indices count from the end; empty: -1
  bool has_label = true;  // false: all columns are inputs, all labels are 0
  bool has_header = true;
  char delimiter = ',';
  bool is_regression = false;
  // The table of the training split, whose labels define the classes if labels are words, and whose
  // columns this table must have. Empty: `path`.
  std::string classes_path;
  int64_t num_classes = 10;
  int64_t max_examples = 0;   // the number of examples to use, from the first; 0: all
  std::vector<IdColumn> ids;  // the columns of ids
  // The columns of "input", in this order, by name, index, or a beginning and '*'. Empty: all
  // columns except the label and ids.
  std::vector<std::string> numbers;
  std::optional<float> empty_number;  // the value of an empty cell among these; none: an error
  DataRules rules;
};

struct CsvColumns {
  std::vector<std::string> names;  // Empty: the first line is an example.
  size_t count = 0;
  size_t label = 0;  // The label's column; `count` if there is none.
};

// Returns the columns, as the first line of the table at options.path has them. Errors are those of
// LoadCsvDataset.
absl::StatusOr<CsvColumns> ReadCsvColumns(const CsvDatasetOptions& options);

// Reads a whole table into memory. The file is plain, or compressed with gzip or zstd. Cells may be
// quoted; empty lines are ignored. Indices of columns are those of a table with the label, also if
// this one has none. Fields: "input" float32 [columns], the columns of numbers, if there are any;
// "label" int32 in [0, num_classes), or for a regression "target" float32 [1]; a ragged field for
// each column of ids, in the order of options.ids. options.rules are checked. If the first label is
// not a number, labels are words: a word's class is its index among the sorted words of the table
// at `classes_path`, and class_names() returns these words. Errors name file:line, the column and
// the remedy.
absl::StatusOr<std::unique_ptr<Dataset>> LoadCsvDataset(const CsvDatasetOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CSV_DATASET_H_
