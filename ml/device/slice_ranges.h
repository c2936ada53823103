// Computes which elements the op Slice takes, and normalizes axes given as attributes.
#ifndef SHOAL_ML_DEVICE_SLICE_RANGES_H_
#define SHOAL_ML_DEVICE_SLICE_RANGES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/attributes.h"
#include "ml/tensor/shape.h"

namespace shoal {

// Returns the axes with negative ones replaced by axis + rank. InvalidArgument if an axis is out of
// range or appears twice.
absl::StatusOr<std::vector<int64_t>> NormalizedAxes(std::vector<int64_t> axes, int rank);

struct AxisRange {
  int64_t begin, end;
};
// Returns the range of elements on each axis of x, from the attributes starts, ends and axes; [0,
// -1) for an axis of unknown size.
absl::StatusOr<std::vector<AxisRange>> SliceRanges(const Attributes& attributes, const Shape& x);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_SLICE_RANGES_H_
