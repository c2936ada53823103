#ifndef SHOAL_ML_DATA_DATA_FORMAT_H_
#define SHOAL_ML_DATA_DATA_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {

// The format of the data set in a directory, by the names of what is there. NotFound if there is
// none, FailedPrecondition if there are several: both say how to name one.
absl::StatusOr<v1::DataConfig::Format> DetectDataFormat(const std::string& directory);

// Checks that a directory holds data of the format that the run file names. FailedPrecondition
// names the formats that it holds instead; NotFound: it holds no data set.
absl::Status CheckHoldsFormat(v1::DataConfig::Format format, const std::string& directory);

// NotFound names data.directory where that of a format with files is not there. InvalidArgument
// names a field that is given and is of another format: nothing would read it.
absl::Status CheckDataFields(v1::DataConfig::Format format, const v1::DataConfig& config);

// Returns OK if a file or folder of the test split is there, complete or not, and for formats
// without files. NotFound names the files that a test split would have.
absl::Status FindTestSplit(v1::DataConfig::Format format, const std::string& directory);

// The TFRecord files of a split in a directory, sorted: <split>*.tfrecord* and
// <split>-00000-of-00010. NotFound if there is none.
absl::StatusOr<std::vector<std::string>> TfRecordPaths(const std::string& directory,
                                                       absl::string_view split);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATA_FORMAT_H_
