// The shape functions of ops that slice, pad and look up.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "ml/device/slice_ranges.h"
#include "ml/graph/shape_functions.h"

namespace shoal::shapes {
namespace {

using Ints = std::vector<int64_t>;

}  // namespace

absl::Status Slice(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& x = request.inputs[0];
  ASSIGN_OR_RETURN(const std::vector<AxisRange> ranges, SliceRanges(request.attributes, x.shape));
  Shape shape;
  for (const AxisRange& range : ranges) {
    shape.AddDim(range.end < 0 ? kUnknownDim : range.end - range.begin);
  }
  outputs->push_back({x.dtype, shape});
  return absl::OkStatus();
}

absl::Status Pad(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& x = request.inputs[0];
  const Ints pads = request.attributes.GetInts("pads", {});
  const int rank = x.shape.rank();
  if (static_cast<int>(pads.size()) != 2 * rank ||
      std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; })) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pads must be ", 2 * rank, " numbers >= 0, first all in front, then all behind; are [",
        absl::StrJoin(pads, ","), "]"));
  }
  Shape shape = x.shape;
  for (int d = 0; d < rank; ++d) {
    if (shape.dim(d) >= 0) shape.set_dim(d, pads[d] + shape.dim(d) + pads[rank + d]);
  }
  outputs->push_back({x.dtype, shape});
  return absl::OkStatus();
}

// Squeeze removes all dimensions of size 1 if no axes are given.
absl::Status Squeeze(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& x = request.inputs[0];
  ASSIGN_OR_RETURN(const Ints axes,
                   NormalizedAxes(request.attributes.GetInts("axes", {}), x.shape.rank()));
  Shape shape;
  for (int d = 0; d < x.shape.rank(); ++d) {
    const bool is_named = std::count(axes.begin(), axes.end(), d) > 0;
    const int64_t dim = x.shape.dim(d);
    if (is_named && dim != 1 && dim >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", d, " of ", x.ToString(), " is not 1"));
    }
    if (!is_named && !(axes.empty() && dim == 1)) shape.AddDim(dim);
  }
  outputs->push_back({x.dtype, shape});
  return absl::OkStatus();
}

// The axes are those of the output.
absl::Status Unsqueeze(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& x = request.inputs[0];
  Ints axes = request.attributes.GetInts("axes", {});
  const int rank = x.shape.rank() + static_cast<int>(axes.size());
  if (axes.empty() || rank > Shape::kMaxRank) {
    return absl::InvalidArgumentError("needs axes, and at most 8 dimensions with them");
  }
  ASSIGN_OR_RETURN(axes, NormalizedAxes(std::move(axes), rank));
  Shape shape;
  for (int d = 0, next = 0; d < rank; ++d) {
    const bool is_new = std::count(axes.begin(), axes.end(), d) > 0;
    shape.AddDim(is_new ? 1 : x.shape.dim(next++));
  }
  outputs->push_back({x.dtype, shape});
  return absl::OkStatus();
}

// The output has the shape of the indices, followed by that of a row of input 0.
absl::Status Gather(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& table = request.inputs[0];
  const TensorSpec& indices = request.inputs[1];
  if (indices.dtype != DataType::kInt32 && indices.dtype != DataType::kInt64) {
    return absl::InvalidArgumentError(
        absl::StrCat("the indices must be int32 or int64, are ", indices.ToString()));
  }
  if (table.shape.rank() < 1 || request.attributes.GetInt("axis", 0) != 0) {
    return absl::InvalidArgumentError(
        "gathers rows (axis 0) of a table with one dimension or more");
  }
  if (table.shape.rank() + indices.shape.rank() - 1 > Shape::kMaxRank) {
    return absl::InvalidArgumentError("the result would have more than 8 dimensions");
  }
  Shape shape = indices.shape;
  for (int64_t dim : table.shape.dims().subspan(1)) shape.AddDim(dim);
  outputs->push_back({table.dtype, shape});
  return absl::OkStatus();
}

// Inputs: indices, dy and the table, of which only the shape is used.
absl::Status GatherGrad(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  outputs->push_back({request.inputs[1].dtype, request.inputs[2].shape});
  return absl::OkStatus();
}

absl::Status Dropout(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const double rate = request.attributes.GetDouble("rate", 0.5);
  if (!(rate >= 0 && rate < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("rate must be in [0, 1), is ", rate));
  }
  return SameAsFirst(request, outputs);
}

}  // namespace shoal::shapes
