#ifndef SHOAL_RUNTIME_VARIABLES_CONTRIBUTION_H_
#define SHOAL_RUNTIME_VARIABLES_CONTRIBUTION_H_

#include <cstdint>

#include "runtime/variables/metric_sums.h"

namespace shoal {

// The enumerations of the bulk path, without protobuf. The values are those of proto/v1/bulk.proto.

enum class ContributionKind : uint8_t {
  kDense = 1,  // the mean gradient over the batch's examples
  // A u32 row count, u32 row indices (rising, inside the slice), then the rows; may have no rows.
  kSparse = 2,
  kStatistic = 3,  // a value computed from the batch (batch norm)
  // The gradients of rows of a bucket, encoded by EncodeRows; empty if the batch
  // touches none of the bucket's rows.
  kRows = 4,
};

enum class PushOutcome : uint8_t {
  kNone = 0,  // not answered
  kAccepted = 1,
  kDuplicate = 2,  // the slice has the batch already: success for the caller
  // ASYNC: the staleness is above the bound; the caller pulls and computes the batch again.
  kStale = 3,
  kWithheld = 4,   // the chief is deciding about this batch, or has skipped it
  kBusy = 5,       // no room for contributions out of order; the caller asks for room
  kCorrupt = 6,    // wrong length or checksum; the caller sends again
  kNonFinite = 7,  // not applied; the caller reports the batch to the chief
  // SYNC: the slice has not reached the step; the caller's state is wrong and must be refreshed.
  kAhead = 8,
};

// The figures of one batch. They are sent with the push that contains SliceTable::report_slice(),
// the first slice that receives contributions.
struct BatchReport {
  double loss_sum = 0;        // the data loss, summed over the batch's examples
  double regularization = 0;  // regularization loss at the values the batch was computed from
  uint64_t correct = 0;
  uint64_t examples = 0;
  MetricSums metrics;  // they have no histograms
};

// The version of a slice that never receives contributions (UPDATE_KIND_NONE): its value is valid
// for every step.
inline constexpr uint64_t kEveryVersion = UINT64_MAX;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_CONTRIBUTION_H_
