#ifndef SHOAL_ML_DATA_RECORDS_UNREADABLE_DATA_H_
#define SHOAL_ML_DATA_RECORDS_UNREADABLE_DATA_H_

#include "absl/status/status.h"

namespace shoal {

// Returns the error for a file or directory of a data set that cannot be read: `why`, which names
// it, and the field to check.
absl::Status UnreadableData(const absl::Status& why);

}  // namespace shoal

#endif  // SHOAL_ML_DATA_RECORDS_UNREADABLE_DATA_H_
