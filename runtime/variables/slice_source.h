#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_SOURCE_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_SOURCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "runtime/plan/batch_key.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {

// Supplies the contents of slices to SliceStore::Load, from a checkpoint or as InitialValues.
class SliceSource {
 public:
  struct Contents {
    absl::Span<float> value;
    // The slots named by SliceStore::slot_names(slice), preset to their initial values.
    std::vector<absl::Span<float>> slots;
    // Output. The moving average was not stored and starts from the value.
    bool slots_follow_value = false;
    // Input and output. In SYNC it is the version of the cut and must not be changed.
    uint64_t version = 0;
    uint64_t value_version = 0;         // input and output, <= version
    std::vector<EpochBatches> applied;  // output, ASYNC
  };
  // The same for a bucket of a table.
  struct BucketContents {
    std::vector<float> initial_slots;  // input: the slots of a row that was never trained
    BucketRows rows;                   // output
    // The next three have the meaning that they have in Contents.
    uint64_t version = 0;
    uint64_t value_version = 0;
    std::vector<EpochBatches> applied;
  };
  virtual ~SliceSource() = default;
  virtual absl::Status Fill(uint32_t slice, Contents* contents) = 0;
  // Leaves the bucket without rows unless overridden: no row was trained.
  virtual absl::Status FillBucket(uint32_t /*slice*/, BucketContents* /*contents*/) {
    return absl::OkStatus();
  }
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_SOURCE_H_
