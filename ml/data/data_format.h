#ifndef SHOAL_ML_DATA_DATA_FORMAT_H_
#define SHOAL_ML_DATA_DATA_FORMAT_H_

#include <string>

#include "absl/status/statusor.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {

// The format of the data set in a directory, by the names of what is there. NotFound if there is
// none, FailedPrecondition if there are several: both say how to name one.
absl::StatusOr<v1::DataConfig::Format> DetectDataFormat(const std::string& directory);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATA_FORMAT_H_
