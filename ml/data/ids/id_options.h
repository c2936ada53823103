// The columns of ids and numbers that a run file names.
#ifndef SHOAL_ML_DATA_IDS_ID_OPTIONS_H_
#define SHOAL_ML_DATA_IDS_ID_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "ml/data/ids/id_column.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {

// Returns data.ids of the run file.
std::vector<IdColumn> IdColumnsOf(const v1::DataConfig& config);

// Checks data.ids and data.numbers for data of this format. InvalidArgument names the field and the
// remedy: an option that the format does not have, two fields with one name, or separators that
// numbers have, too.
absl::Status CheckIdOptions(v1::DataConfig::Format format, const v1::DataConfig& config);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_IDS_ID_OPTIONS_H_
