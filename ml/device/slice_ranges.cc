#include "ml/device/slice_ranges.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"

namespace shoal {
namespace {

using Ints = std::vector<int64_t>;

int64_t Clamped(int64_t position, int64_t size) {
  return std::clamp<int64_t>(position < 0 ? position + size : position, 0, size);
}

}  // namespace

using Ints = std::vector<int64_t>;

// Checks and normalizes the axes: each is in range and appears once.
absl::StatusOr<std::vector<int64_t>> NormalizedAxes(std::vector<int64_t> axes, int rank) {
  std::vector<bool> used(rank, false);
  for (int64_t& axis : axes) {
    const int64_t from_front = axis < 0 ? axis + rank : axis;
    if (from_front < 0 || from_front >= rank || used[from_front]) {
      return absl::InvalidArgumentError(
          absl::StrCat("axes [", absl::StrJoin(axes, ","), "] must name different axes of ", rank));
    }
    used[from_front] = true;
    axis = from_front;
  }
  return axes;
}

absl::StatusOr<std::vector<AxisRange>> SliceRanges(const Attributes& attributes, const Shape& x) {
  const Ints starts = attributes.GetInts("starts", {}), ends = attributes.GetInts("ends", {});
  const Ints steps = attributes.GetInts("steps", {});
  Ints axes = attributes.GetInts("axes", {});
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (std::any_of(steps.begin(), steps.end(), [](int64_t step) { return step != 1; })) {
    return absl::InvalidArgumentError("steps other than 1 are not supported");
  }
  if (starts.empty() || starts.size() != ends.size() || starts.size() != axes.size()) {
    return absl::InvalidArgumentError("starts, ends and axes must be as many, at least one");
  }
  ASSIGN_OR_RETURN(axes, NormalizedAxes(std::move(axes), x.rank()));
  std::vector<AxisRange> ranges;
  for (int64_t dim : x.dims()) ranges.push_back({0, dim});
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t dim = x.dim(static_cast<int>(axes[i]));
    if (dim < 0) continue;
    const int64_t begin = Clamped(starts[i], dim);
    ranges[axes[i]] = {begin, std::max(begin, Clamped(ends[i], dim))};
  }
  return ranges;
}

}  // namespace shoal
