#include <cstring>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

void Copy(const Call& call) {
  std::memcpy(call.context.outputs[0], call.context.inputs[0], call.outputs[0].bytes());
}

void Transpose(const Call& call) {
  const Shape &from = call.InShape(0), &to = call.OutShape(0);
  const auto perm = call.attributes.GetInts("perm", {});
  for (int64_t i = 0; i < to.num_elements(); ++i) {
    int64_t position[Shape::kMaxRank] = {};
    for (int64_t rest = i, k = to.rank() - 1; k >= 0; --k) {
      position[perm[static_cast<size_t>(k)]] = rest % to.dim(static_cast<int>(k));
      rest /= to.dim(static_cast<int>(k));
    }
    int64_t source = 0;
    for (int k = 0; k < from.rank(); ++k) source = source * from.dim(k) + position[k];
    CopyElement(SizeOf(call.outputs[0].dtype), call.context.inputs[0], source,
                call.context.outputs[0], i);
  }
}

// A tensor cut before and after an axis: [outer, size of the axis, inner].
struct AxisView {
  AxisView(const Call& call, const Shape& shape) : outer(1), size(1), inner(1) {
    int64_t axis = call.attributes.GetInt("axis", 0);
    if (axis < 0) axis += shape.rank();
    for (int k = 0; k < shape.rank(); ++k) {
      (k < axis ? outer : k == axis ? size : inner) *= shape.dim(k);
    }
  }
  int64_t outer, size, inner;
};

// Copies between a whole and its part that begins at `begin` along the axis.
void CopyPart(const Call& call, const Shape& whole_shape, const Shape& part_shape, int64_t begin,
              const void* from, void* to, bool from_whole) {
  const AxisView whole(call, whole_shape), part(call, part_shape);
  const int64_t block = part.size * part.inner;
  for (int64_t outer = 0; outer < part.outer; ++outer) {
    for (int64_t k = 0; k < block; ++k) {
      const int64_t in_whole = (outer * whole.size + begin) * whole.inner + k;
      const int64_t in_part = outer * block + k;
      CopyElement(SizeOf(call.outputs[0].dtype), from, from_whole ? in_whole : in_part, to,
                  from_whole ? in_part : in_whole);
    }
  }
}

void Concat(const Call& call) {
  int64_t begin = 0;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    CopyPart(call, call.OutShape(0), call.InShape(k), begin, call.context.inputs[k],
             call.context.outputs[0], false);
    begin += AxisView(call, call.InShape(k)).size;
  }
}

// Split and the gradient of Concat: the outputs' shapes say where to cut.
void Split(const Call& call) {
  int64_t begin = 0;
  for (size_t k = 0; k < call.outputs.size(); ++k) {
    if (call.context.outputs[k] != nullptr) {
      CopyPart(call, call.InShape(0), call.OutShape(k), begin, call.context.inputs[0],
               call.context.outputs[k], true);
    }
    begin += AxisView(call, call.OutShape(k)).size;
  }
}

// Through double: whole numbers beyond 2^53 would be rounded.
void Cast(const Call& call) {
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    StoreElement(call.outputs[0].dtype,
                 LoadElement(call.inputs[0].dtype, call.context.inputs[0], i),
                 call.context.outputs[0], i);
  }
}

void Constant(const Call& call) {
  const double value = call.attributes.GetDouble("value", 0);
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    StoreElement(call.outputs[0].dtype, value, call.context.outputs[0], i);
  }
}

int64_t LayoutIndex(const TensorSpec& spec, int64_t n, int64_t c, int64_t h, int64_t w) {
  if (spec.layout == Layout::kPlain) return At(spec.shape, n, c, h, w);
  const Shape blocked(
      {spec.shape.dim(0), spec.shape.dim(1) / 16, spec.shape.dim(2), spec.shape.dim(3) * 16});
  return At(blocked, n, c / 16, h, w * 16 + c % 16);
}

void ReorderLayout(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const int64_t w = i % shape.dim(3), h = i / shape.dim(3) % shape.dim(2);
    const int64_t c = i / (shape.dim(2) * shape.dim(3)) % shape.dim(1);
    const int64_t n = i / (shape.dim(1) * shape.dim(2) * shape.dim(3));
    CopyElement(SizeOf(call.outputs[0].dtype), call.context.inputs[0],
                LayoutIndex(call.inputs[0], n, c, h, w), call.context.outputs[0],
                LayoutIndex(call.outputs[0], n, c, h, w));
  }
}

constexpr Op kOps[] = {
    {"Reshape", &Copy, &Copy},          {"Identity", &Copy, &Copy},
    {"Statistic", &Copy, &Copy},        {"Transpose", &Transpose, &Transpose},
    {"Concat", &Concat, &Concat},       {"ConcatGrad", &Split, &Split},
    {"Split", &Split, &Split},          {"Cast", &Cast, &Cast},
    {"Constant", &Constant, &Constant}, {"ReorderLayout", &ReorderLayout, &ReorderLayout},
};

}  // namespace

absl::Span<const Op> ShapeOps() { return kOps; }

}  // namespace shoal::reference
