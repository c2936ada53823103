#ifndef SHOAL_ML_DATA_IDS_RECORD_IDS_H_
#define SHOAL_ML_DATA_IDS_RECORD_IDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "ml/data/ids/id_column.h"

namespace shoal {

namespace tf {
class Example;
class Feature;
}  // namespace tf

// Returns the feature with this name that has values, or null.
const tf::Feature* FindValues(const tf::Example& example, const std::string& name);

// Adds the ids that a record has in the feature ids.column to *list: its integers, or its byte
// strings if ids are words. A record without the feature, or with an empty one, has no ids.
// DataLoss names the feature and the remedy: values of another type, a negative id, a weight that
// is not finite, or not exactly one weight for each id.
absl::Status AddRecordIds(const tf::Example& example, const IdColumn& ids, IdList* list);

// Appends the values of a feature, floats or integers, to *numbers. DataLoss names the feature: it
// is missing, has byte strings or a value that is not finite.
absl::Status AddRecordNumbers(const tf::Example& example, const std::string& name,
                              std::vector<float>* numbers);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDS_RECORD_IDS_H_
