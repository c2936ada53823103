// Computes which elements a Slice takes, and reads axes as attributes name them.
#ifndef SHOAL_ML_DEVICE_SLICE_RANGES_H_
#define SHOAL_ML_DEVICE_SLICE_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/attributes.h"
#include "ml/tensor/shape.h"

namespace shoal {

// The axes counted from the front; InvalidArgument unless each names another of `rank` axes.
absl::StatusOr<std::vector<int64_t>> NormalizedAxes(std::vector<int64_t> axes, int rank);

struct AxisRange {
  int64_t begin, end;
};
// Returns the range of each axis of x from the attributes starts, ends and axes; [0, -1) where the
// size is unknown.
absl::StatusOr<std::vector<AxisRange>> SliceRanges(const Attributes& attributes, const Shape& x);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_SLICE_RANGES_H_
