// Names of tables, columns and features in a run file. A name that ends in '*' stands for all names
// that begin with the part before it.
#ifndef SHOAL_ML_NN_FEATURE_NAMES_H_
#define SHOAL_ML_NN_FEATURE_NAMES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"

namespace shoal {

namespace v1 {
class TableConfig;
}

// Returns whether a table can have this name, which becomes part of paths: 1 to 128 letters,
// digits,
// '_', '-' or '.', not beginning with '.'.
bool IsTableName(absl::string_view name);

// Returns whether the name stands for many.
bool IsPattern(absl::string_view name);

// Returns whether `pattern` is the name or stands for it.
bool StandsFor(absl::string_view pattern, absl::string_view name);

// Returns the entry for the table with this name: that with the name itself, otherwise that with
// the longest pattern that stands for it; null if there is none.
const v1::TableConfig* FindTable(const google::protobuf::RepeatedPtrField<v1::TableConfig>& entries,
                                 absl::string_view name);

// Returns `name` with the column in the place of its '*'.
std::string NameForColumn(absl::string_view name, absl::string_view column);

}  // namespace shoal

#endif  // SHOAL_ML_NN_FEATURE_NAMES_H_
