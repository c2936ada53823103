// Compares the columns of a CSV file for `shoal predict` with those that the run was trained on.
#ifndef SHOAL_WORKER_PREDICTION_INPUT_COLUMNS_H_
#define SHOAL_WORKER_PREDICTION_INPUT_COLUMNS_H_

#include <string>

#include "absl/status/status.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {

// Checks that the CSV file `file` has the columns of the run's CSV files without the label, in
// their order, or as many columns if one of the files does not name them. FailedPrecondition names
// --input, the column and the remedy. OK also if the run was not trained on CSV files, if they no
// longer exist, and if the first line cannot be read: the reader of the examples explains that.
absl::Status CheckInputColumns(const v1::DataConfig& config, const std::string& file);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_INPUT_COLUMNS_H_
