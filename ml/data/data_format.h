#ifndef SHOAL_ML_DATA_DATA_FORMAT_H_
#define SHOAL_ML_DATA_DATA_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {

// Detects the format of the data set in a directory from the names of its files and folders.
// Returns NotFound if no format matches, FailedPrecondition if several do; both errors explain how
// to set the format.
absl::StatusOr<v1::DataConfig::Format> DetectDataFormat(const std::string& directory);

// Checks that a directory holds data of the format that the run file names. FailedPrecondition
// names the formats that it holds instead; NotFound: it holds no data set.
absl::Status CheckHoldsFormat(v1::DataConfig::Format format, const std::string& directory);

// Checks the fields of `config` for this format. NotFound names data.directory if the format has
// files and the directory does not exist. InvalidArgument names a field that is set but belongs to
// another format, so that nothing would read it.
absl::Status CheckDataFields(v1::DataConfig::Format format, const v1::DataConfig& config);

// Returns OK if any file or folder of the test split exists, complete or not, and for formats
// without files. NotFound names the files that a test split would have.
absl::Status FindTestSplit(v1::DataConfig::Format format, const std::string& directory);

// Returns the sorted paths of the TFRecord files of a split in a directory: names like
// <split>*.tfrecord* and <split>-00000-of-00010. NotFound if none exists.
absl::StatusOr<std::vector<std::string>> TfRecordPaths(const std::string& directory,
                                                       absl::string_view split);

// Returns the path of <split>.tsv, <split>.tsv.gz or <split>.tsv.zst in a directory. NotFound if
// none exists, FailedPrecondition if several do.
absl::StatusOr<std::string> TsvPath(const std::string& directory, const std::string& split);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATA_FORMAT_H_
