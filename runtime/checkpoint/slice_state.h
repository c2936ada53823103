// The version of a slice in a checkpoint, and the names of a slice's tensors.
#ifndef SHOAL_RUNTIME_CHECKPOINT_SLICE_STATE_H_
#define SHOAL_RUNTIME_CHECKPOINT_SLICE_STATE_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/plan/batch_key.h"

namespace shoal {

struct SavedSliceState {
  // UINT64_MAX: the slice receives no contributions, and its value is valid for every version.
  uint64_t version = 0;
  uint64_t value_version = 0;
  std::vector<EpochBatches> applied;  // ASYNC: the batches that the value contains
};

// Returns text such as "version=12 value_version=11 applied=0:0-5,7-9;3:0-1"; ranges are [begin,
// end).
std::string EncodeSliceState(const SavedSliceState& state);
// Returns DataLoss if the text has another form.
absl::StatusOr<SavedSliceState> DecodeSliceState(absl::string_view text);

// A variable's slices are numbered from 0 in the order of their elements.
struct SliceName {
  std::string variable;
  uint32_t index = 0;
  std::string slot;  // empty: the value

  friend bool operator<(const SliceName& a, const SliceName& b) {
    return std::tie(a.variable, a.index, a.slot) < std::tie(b.variable, b.index, b.slot);
  }
};

// Returns text such as "affine0/w|3" or "affine0/w|3|momentum"; variable names have no '|'.
std::string EncodeSliceName(const SliceName& name);
absl::StatusOr<SliceName> DecodeSliceName(absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SLICE_STATE_H_
