// Compares the columns of a table for `shoal predict` with those that the run was trained on.
#ifndef SHOAL_WORKER_PREDICTION_INPUT_COLUMNS_H_
#define SHOAL_WORKER_PREDICTION_INPUT_COLUMNS_H_

#include <string>

#include "absl/status/status.h"

#include "proto/v1/data_config.pb.h"

namespace shoal {

// Checks that the table at `file` has the columns of the run's tables but the label, in their
// order. FailedPrecondition names --input, the column and the remedy. OK also if the run was not
// trained on tables, if they no longer exist, and if the first line cannot be read: the reader of
// the examples explains that.
absl::Status CheckInputColumns(const v1::DataConfig& config, const std::string& file);

}  // namespace shoal

#endif  // SHOAL_WORKER_PREDICTION_INPUT_COLUMNS_H_
