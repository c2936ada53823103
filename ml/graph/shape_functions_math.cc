#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/shape_functions.h"

namespace shoal {
namespace {

absl::Status Mismatch(absl::string_view what, const Shape& a, const Shape& b) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": ", a.ToString(), " and ", b.ToString()));
}

bool Compatible(int64_t a, int64_t b) { return a == b || a < 0 || b < 0; }

// Returns the axis counted from the front; -1 if it is out of range.
int NormalizedAxis(int64_t axis, int rank) {
  if (axis < 0) axis += rank;
  return axis >= 0 && axis < rank ? static_cast<int>(axis) : -1;
}

// Returns the dimension that is -1 in ONNX's Reshape, computed from the number of elements. It is
// unknown if the input has an unknown dimension that is not copied.
int64_t InferredDim(const Shape& input, const std::vector<int64_t>& target) {
  int64_t elements = 1;
  for (int i = 0; i < input.rank(); ++i) {
    const bool copied = i < static_cast<int>(target.size()) && target[i] == 0;
    if (copied) continue;
    if (input.dim(i) < 0) return kUnknownDim;
    elements *= input.dim(i);
  }
  for (int64_t dim : target) {
    if (dim > 0) elements = elements % dim == 0 ? elements / dim : 0;
  }
  return elements;
}

}  // namespace

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int offset = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const int64_t x = longer.dim(offset + i);
    const int64_t y = shorter.dim(i);
    if (x == 1) {
      result.set_dim(offset + i, y);
    } else if (y != 1) {
      if (!Compatible(x, y)) return Mismatch("shapes do not broadcast", a, b);
      result.set_dim(offset + i, x < 0 ? y : x);
    }
  }
  return result;
}

absl::StatusOr<Shape> ReducedShape(const Shape& x, const std::vector<int64_t>& axes,
                                   bool keep_dims) {
  std::vector<bool> reduced(x.rank(), axes.empty());
  for (int64_t axis : axes) {
    const int index = NormalizedAxis(axis, x.rank());
    if (index < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("axis ", axis, " is outside the shape ", x.ToString()));
    }
    reduced[index] = true;
  }
  Shape result;
  for (int i = 0; i < x.rank(); ++i) {
    if (!reduced[i]) {
      result.AddDim(x.dim(i));
    } else if (keep_dims) {
      result.AddDim(1);
    }
  }
  return result;
}

namespace shapes {

absl::Status FromAttributes(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const auto dtype = static_cast<DataType>(request.attributes.GetInt("dtype", 0));
  const Shape shape{absl::Span<const int64_t>(request.attributes.GetInts("shape", {}))};
  outputs->push_back({dtype, shape});
  return absl::OkStatus();
}

absl::Status SameAsFirst(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  outputs->push_back(request.inputs[0]);
  return absl::OkStatus();
}

absl::Status LikeSecond(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  outputs->push_back({request.inputs[0].dtype, request.inputs[1].shape});
  return absl::OkStatus();
}

absl::Status Broadcast(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& a = request.inputs[0];
  const TensorSpec& b = request.inputs[1];
  if (a.dtype != b.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("element types differ: ", a.ToString(), " and ", b.ToString()));
  }
  ASSIGN_OR_RETURN(Shape shape, BroadcastShapes(a.shape, b.shape));
  outputs->push_back({a.dtype, shape});
  return absl::OkStatus();
}

absl::Status SameShapes(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  TensorSpec spec = request.inputs[0];
  for (const TensorSpec& input : request.inputs) {
    bool same = input.dtype == spec.dtype && input.shape.rank() == spec.shape.rank();
    for (int i = 0; same && i < spec.shape.rank(); ++i) {
      same = Compatible(input.shape.dim(i), spec.shape.dim(i));
      if (spec.shape.dim(i) < 0) spec.shape.set_dim(i, input.shape.dim(i));
    }
    if (!same) {
      return absl::InvalidArgumentError(
          absl::StrCat("inputs must be alike: ", spec.ToString(), " and ", input.ToString()));
    }
  }
  outputs->push_back(spec);
  return absl::OkStatus();
}

absl::Status MatMul(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& a = request.inputs[0];
  const TensorSpec& b = request.inputs[1];
  const int batch_rank = a.shape.rank() - 2;
  const bool is_shared = b.shape.rank() == 2;
  if (batch_rank < 0 || (!is_shared && b.shape.rank() != a.shape.rank()) || a.dtype != b.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("needs two matrices of one type, or two batches of as many dimensions, or a "
                     "batch and a matrix; has ",
                     a.ToString(), " and ", b.ToString()));
  }
  Shape shape;
  for (int d = 0; d < batch_rank; ++d) {
    if (!is_shared && !Compatible(a.shape.dim(d), b.shape.dim(d))) {
      return Mismatch("leading dimensions differ", a.shape, b.shape);
    }
    shape.AddDim(is_shared || a.shape.dim(d) >= 0 ? a.shape.dim(d) : b.shape.dim(d));
  }
  const int column_a = request.attributes.GetBool("transpose_a", false) ? 0 : 1;
  const int column_b = request.attributes.GetBool("transpose_b", false) ? 0 : 1;
  const int batch_b = b.shape.rank() - 2;
  if (!Compatible(a.shape.dim(batch_rank + column_a), b.shape.dim(batch_b + 1 - column_b))) {
    return Mismatch("inner dimensions differ", a.shape, b.shape);
  }
  shape.AddDim(a.shape.dim(batch_rank + 1 - column_a));
  shape.AddDim(b.shape.dim(batch_b + column_b));
  outputs->push_back({a.dtype, shape});
  return absl::OkStatus();
}

absl::Status Reduce(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  ASSIGN_OR_RETURN(Shape shape,
                   ReducedShape(request.inputs[0].shape, request.attributes.GetInts("axes", {}),
                                request.attributes.GetBool("keepdims", false)));
  outputs->push_back({request.inputs[0].dtype, shape});
  return absl::OkStatus();
}

absl::Status ScalarLikeFirst(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  outputs->push_back({request.inputs[0].dtype, Shape()});
  return absl::OkStatus();
}

// The output has the shape of the second, shape-only input, if there is one, except that the axes
// in `reduced_axes` (all axes if the attribute is set but empty) have size 1. Otherwise the
// attribute `shape` follows ONNX: 0 copies the input's dimension, and -1 is computed from the
// number of elements.
absl::Status Reshape(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const Shape& input = request.inputs[0].shape;
  Shape shape;
  if (request.inputs.size() == 2) {
    shape = request.inputs[1].shape;
    if (request.attributes.Has("reduced_axes")) {
      ASSIGN_OR_RETURN(shape,
                       ReducedShape(shape, request.attributes.GetInts("reduced_axes", {}), true));
    }
  } else {
    const std::vector<int64_t> target = request.attributes.GetInts("shape", {});
    for (size_t i = 0; i < target.size(); ++i) {
      const bool copied = target[i] == 0 && static_cast<int>(i) < input.rank();
      shape.AddDim(copied ? input.dim(static_cast<int>(i))
                          : (target[i] < 0 ? InferredDim(input, target) : target[i]));
    }
  }
  if (shape.IsKnown() && input.IsKnown() && shape.num_elements() != input.num_elements()) {
    return Mismatch("cannot reshape", input, shape);
  }
  outputs->push_back({request.inputs[0].dtype, shape});
  return absl::OkStatus();
}

absl::Status Transpose(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const Shape& input = request.inputs[0].shape;
  const std::vector<int64_t> perm = request.attributes.GetInts("perm", {});
  std::vector<bool> used(input.rank(), false);
  Shape shape;
  for (int64_t axis : perm) {
    if (axis < 0 || axis >= input.rank() || used[axis]) break;
    used[axis] = true;
    shape.AddDim(input.dim(static_cast<int>(axis)));
  }
  if (shape.rank() != input.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("perm must name each axis of ", input.ToString(), " once"));
  }
  outputs->push_back({request.inputs[0].dtype, shape});
  return absl::OkStatus();
}

absl::Status Concat(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  TensorSpec spec = request.inputs[0];
  const int axis = NormalizedAxis(request.attributes.GetInt("axis", 0), spec.shape.rank());
  if (axis < 0) return absl::InvalidArgumentError("axis is outside the inputs' shape");
  for (size_t i = 1; i < request.inputs.size(); ++i) {
    const TensorSpec& input = request.inputs[i];
    bool same = input.dtype == spec.dtype && input.shape.rank() == spec.shape.rank();
    for (int d = 0; same && d < spec.shape.rank(); ++d) {
      same = d == axis || Compatible(input.shape.dim(d), spec.shape.dim(d));
    }
    if (!same) return Mismatch("inputs do not concatenate", spec.shape, input.shape);
    const bool known = spec.shape.dim(axis) >= 0 && input.shape.dim(axis) >= 0;
    spec.shape.set_dim(axis, known ? spec.shape.dim(axis) + input.shape.dim(axis) : kUnknownDim);
  }
  outputs->push_back(spec);
  return absl::OkStatus();
}

// Attribute `split`: the sizes along `axis`.
absl::Status Split(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& input = request.inputs[0];
  const int axis = NormalizedAxis(request.attributes.GetInt("axis", 0), input.shape.rank());
  const std::vector<int64_t> sizes = request.attributes.GetInts("split", {});
  if (axis < 0 || sizes.empty()) {
    return absl::InvalidArgumentError("needs an axis of the input and the sizes `split`");
  }
  int64_t sum = 0;
  for (int64_t size : sizes) {
    TensorSpec part = input;
    part.shape.set_dim(axis, size);
    outputs->push_back(part);
    sum += size;
  }
  if (!Compatible(sum, input.shape.dim(axis))) {
    return absl::InvalidArgumentError(absl::StrCat("the sizes add up to ", sum, ", not to axis ",
                                                   axis, " of ", input.shape.ToString()));
  }
  return absl::OkStatus();
}

absl::Status Cast(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  outputs->push_back(
      {static_cast<DataType>(request.attributes.GetInt("to", 0)), request.inputs[0].shape});
  return absl::OkStatus();
}

// The gradient of Concat: cuts input 0 into the shapes of the other, shape-only inputs.
absl::Status ConcatGrad(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  for (const TensorSpec& part : request.inputs.subspan(1)) {
    outputs->push_back({request.inputs[0].dtype, part.shape});
  }
  return absl::OkStatus();
}

absl::Status SumTo(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const Shape& from = request.inputs[0].shape;
  const Shape& to = request.inputs[1].shape;
  const absl::StatusOr<Shape> broadcast = BroadcastShapes(to, from);
  if (!broadcast.ok() || (from.IsKnown() && to.IsKnown() && *broadcast != from)) {
    return Mismatch("cannot sum to a shape that does not broadcast to it", from, to);
  }
  return LikeSecond(request, outputs);
}

absl::Status BroadcastTo(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const Shape& from = request.inputs[0].shape;
  const Shape& to = request.inputs[1].shape;
  const absl::StatusOr<Shape> broadcast = BroadcastShapes(from, to);
  if (!broadcast.ok() || (from.IsKnown() && to.IsKnown() && *broadcast != to)) {
    return Mismatch("cannot broadcast", from, to);
  }
  return LikeSecond(request, outputs);
}

}  // namespace shapes
}  // namespace shoal
