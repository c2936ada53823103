// Finds out what each column of a table is.
#ifndef SHOAL_ML_DATA_CSV_COLUMNS_H_
#define SHOAL_ML_DATA_CSV_COLUMNS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/data/csv_dataset.h"
#include "ml/data/ids/id_column.h"

namespace shoal {

// The uses of the columns of a table, by their numbers from 0.
struct CsvRoles {
  struct Ids {
    size_t column = 0;
    std::string name;               // of the field
    const IdColumn* ids = nullptr;  // an element of options.ids
  };

  size_t label = 0;             // the number of columns if there is none
  std::vector<Ids> ids;         // in the order of options.ids, and of the columns within a pattern
  std::vector<size_t> numbers;  // the columns of the field "input", in its order
};

// Returns what the columns of the table at `path` are, which has `count` columns with these names,
// or without names. `options` must outlive the result. InvalidArgument names a column that is not
// there, is named twice or has two roles.
absl::StatusOr<CsvRoles> FindCsvRoles(const CsvDatasetOptions& options, const std::string& path,
                                      const std::vector<std::string>& names, size_t count);

// Returns the text in quotes for an error of one line: escaped, and cut after 40 characters.
std::string QuotedCell(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_CSV_COLUMNS_H_
