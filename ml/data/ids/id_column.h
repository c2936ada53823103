#ifndef SHOAL_ML_DATA_IDS_ID_COLUMN_H_
#define SHOAL_ML_DATA_IDS_ID_COLUMN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

// A column of ids in data of the user, which becomes a ragged field.
struct IdColumn {
  // Where the ids are: a column of a table, by name or index, an array or a feature of a record. A
  // name that ends in '*' is for all columns of a table whose names begin with the rest.
  std::string column;
  std::string name;       // of the field; empty: that of the column
  bool words = false;     // ids are texts, whose keys are HashText; false: whole numbers
  std::string separator;  // stands between the ids of a list; empty: a cell has at most one id
  bool negative = false;  // negative numbers are ids, too: the 64 bits count
};

// Returns the name of the field for a column with this name.
inline std::string FieldNameOf(const IdColumn& ids, absl::string_view column) {
  return ids.name.empty() ? std::string(column) : ids.name;
}

// Adds the ids of a cell to *keys; an empty cell, and an empty place in a list, has none. Returns
// what is wrong with the cell and the remedy, or "".
std::string AddIds(absl::string_view cell, const IdColumn& ids, std::vector<int64_t>* keys);

// Returns what is wrong with a number as an id of the column and the remedy, or "".
std::string CheckId(int64_t number, const IdColumn& ids);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDS_ID_COLUMN_H_
