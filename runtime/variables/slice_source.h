#ifndef SHOAL_RUNTIME_VARIABLES_SLICE_SOURCE_H_
#define SHOAL_RUNTIME_VARIABLES_SLICE_SOURCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "base/interval_set.h"

namespace shoal {

// Where Load gets a slice's contents from: a checkpoint, or InitialValues.
class SliceSource {
 public:
  struct Contents {
    absl::Span<float> value;
    std::vector<absl::Span<float>>
        slots;  // named by SliceStore::slot_names(slice); preset to their initial values
    bool slots_follow_value =
        false;                   // out: the moving average was not stored; start it from the value
    uint64_t version = 0;        // in and out. SYNC: the version of the cut, stays as it is
    uint64_t value_version = 0;  // in and out, <= version
    std::vector<EpochBatches> applied;  // ASYNC, out
  };
  virtual ~SliceSource() = default;
  virtual absl::Status Fill(uint32_t slice, Contents* contents) = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SLICE_SOURCE_H_
