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

// Checks that config.directory() holds data of the format that the run file names.
// FailedPrecondition names the formats that it holds instead; NotFound: it holds no data set.
absl::Status CheckHoldsFormat(v1::DataConfig::Format format, const v1::DataConfig& config);

// Checks the fields of `config` for this format. NotFound names data.directory if the format has
// files and the directory does not exist. InvalidArgument names a field that is set but belongs to
// another format, so that nothing would read it.
absl::Status CheckDataFields(v1::DataConfig::Format format, const v1::DataConfig& config);

// Returns OK if config.directory() has the test split, and for formats without files. NotFound
// names the files that a test split would have, FailedPrecondition what is missing of it.
absl::Status FindTestSplit(v1::DataConfig::Format format, const v1::DataConfig& config);

// Returns the sorted paths of the TFRecord files of a split in a directory: names like
// <split>*.tfrecord* and <split>-00000-of-00010. NotFound if none exists.
absl::StatusOr<std::vector<std::string>> TfRecordPaths(const std::string& directory,
                                                       absl::string_view split);

// Returns the path of the file with this name in a directory, or of that file compressed, with .gz
// or .zst behind its name. NotFound if none exists, FailedPrecondition if several do, Unavailable
// if that cannot be seen now.
absl::StatusOr<std::string> TextPath(const std::string& directory, const std::string& name);

// Returns whether the path ends in `ending`, .gz or .zst behind it included.
bool IsTextName(absl::string_view path, absl::string_view ending);

// Returns whether x_`split`.npy exists. Without it, ids in arrays have no numbers beside them.
// Returns kUnavailable if the file system cannot show that now.
absl::StatusOr<bool> HasNpyInputs(const std::string& directory, const std::string& split);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_DATA_FORMAT_H_
