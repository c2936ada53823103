#ifndef SHOAL_ML_DATA_IDS_ID_COLUMN_H_
#define SHOAL_ML_DATA_IDS_ID_COLUMN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal {

// A column of ids in data of the user, which becomes a ragged field.
struct IdColumn {
  // The place of the ids: a column of a CSV file, by name or index, an array or a feature of a
  // record. "user*" selects all columns of a CSV file whose names begin with "user".
  std::string column;
  std::string name;       // the name of the field; empty: the field has the name of the column
  bool words = false;     // true: ids are texts, whose keys are HashText; false: whole numbers
  std::string separator;  // the text between the ids of a list; empty: a cell has at most one id
  // The place of the weights. For a CSV file it is the text between an id and its weight in a cell
  // (":" for "7:0.5"), otherwise the name of an array or of a feature of a record. Empty: ids have
  // no weights.
  std::string weights;
  std::optional<int64_t> missing;          // this number is not an id
  std::vector<std::string> missing_words;  // these texts are not ids of a column of words
  // True: negative numbers are ids, too; the key has the same 64 bits. False: they are errors.
  bool negative = false;
  std::string entry;  // its place in the run file, "data.ids[0]", for errors; empty: it has none
};

// The ids of one example, and one weight for each if the column has weights.
struct IdList {
  std::vector<int64_t> keys;
  std::vector<float> weights;

  void Clear() {
    keys.clear();
    weights.clear();
  }
};

// Returns the name of the field for a column with this name.
inline std::string FieldNameOf(const IdColumn& ids, absl::string_view column) {
  return ids.name.empty() ? std::string(column) : ids.name;
}

// Adds the ids of a cell to *list; an empty cell, and an empty place in a list, has none. A word of
// ids.missing_words needs no weight. If the cell is wrong, returns why, with the remedy, in words
// that follow the name of the cell ("which is not a whole number of 64 bits (...)"); otherwise "".
std::string AddIds(absl::string_view cell, const IdColumn& ids, IdList* list);

// Adds a number, unless it is ids.missing. A column without weights ignores the weight. Returns
// what is wrong with the number or the weight in the form of AddIds, or "".
std::string AddId(int64_t number, float weight, const IdColumn& ids, IdList* list);

// Adds a text of a column of words, unless it is empty or one of ids.missing_words. The text is
// hashed as it is, blanks included. Returns what is wrong with the weight in the form of AddIds,
// or "".
std::string AddWord(absl::string_view text, float weight, const IdColumn& ids, IdList* list);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDS_ID_COLUMN_H_
