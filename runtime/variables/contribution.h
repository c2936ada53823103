#ifndef SHOAL_RUNTIME_VARIABLES_CONTRIBUTION_H_
#define SHOAL_RUNTIME_VARIABLES_CONTRIBUTION_H_

#include <cstdint>

namespace shoal {

// The words of the bulk path, without protobuf. Values are those of proto/v1/bulk.proto.

enum class ContributionKind : uint8_t {
  kDense = 1,  // the mean gradient over the batch's examples
  kSparse =
      2,  // u32 row count, u32 row indices (rising, inside the slice), then the rows; may be empty
  kStatistic = 3,  // a value computed from the batch (batch norm)
};

enum class PushOutcome : uint8_t {
  kNone = 0,  // not answered
  kAccepted = 1,
  kDuplicate = 2,  // the same batch was here before: success for the caller
  kStale = 3,      // ASYNC: staleness above the bound; pull again and compute the batch again
  kWithheld = 4,   // the chief is deciding about this batch, or has skipped it
  kBusy = 5,       // no room left for contributions out of order; ask for room
  kCorrupt = 6,    // length or checksum wrong: send again
  kNonFinite = 7,  // not applied; the batch must be reported to the chief
  kAhead = 8,      // SYNC: the slice has not reached the step; the caller is confused, refresh
};

// Facts about one batch. They travel with the push that contains
// SliceTable::report_slice(): the first slice that gets contributions.
struct BatchReport {
  double loss_sum = 0;        // sum over the batch's examples of the data loss
  double regularization = 0;  // regularization loss at the values the batch was computed from
  uint64_t correct = 0;
  uint64_t examples = 0;
};

// The version of a slice that never gets contributions (UPDATE_KIND_NONE): its value is good for
// every step.
inline constexpr uint64_t kEveryVersion = UINT64_MAX;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_CONTRIBUTION_H_
