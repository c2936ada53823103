// Reads the names of classes for formats of data that do not contain them: from classes.txt in the
// directory of the data.
#ifndef SHOAL_ML_DATA_NAMED_CLASSES_H_
#define SHOAL_ML_DATA_NAMED_CLASSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

// Returns the names in DIRECTORY/classes.txt, one per line in the order of the labels; none if the
// file does not exist. DataLoss if a name appears twice or a line between others is empty.
absl::StatusOr<std::vector<std::string>> ReadNamedClasses(const std::string& directory);

// Returns the data set with these names, one for each class.
std::unique_ptr<Dataset> WithClassNames(std::unique_ptr<Dataset> dataset,
                                        std::vector<std::string> names);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_NAMED_CLASSES_H_
