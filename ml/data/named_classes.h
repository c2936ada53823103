// Names of classes for data whose format has none: classes.txt in the directory of the data.
#ifndef SHOAL_ML_DATA_NAMED_CLASSES_H_
#define SHOAL_ML_DATA_NAMED_CLASSES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/dataset.h"

namespace shoal {

// Returns the names in DIRECTORY/classes.txt, one per line in the order of the labels; none if
// there is no such file. DataLoss: a name is there twice, or a line between others is empty.
absl::StatusOr<std::vector<std::string>> ReadNamedClasses(const std::string& directory);

// Returns the data set with these names, of which there is one for each class.
std::unique_ptr<Dataset> WithClassNames(std::unique_ptr<Dataset> dataset,
                                        std::vector<std::string> names);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_NAMED_CLASSES_H_
