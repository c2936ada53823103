// Ops that move elements of any type: Transpose, Concat, ConcatGrad, Split.

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// Element [i][j] of a plane of the output is element [j][i] of the input, or runs along with it
// where the last axis stays last. All strides in elements.
struct TransposePlan {
  std::array<int64_t, Shape::kMaxRank> size{}, stride{};  // of the output's axes; stride in x
  int rank = 0;
};

template <typename T>
class TransposeKernel : public Kernel {
 public:
  TransposeKernel(const TransposePlan& plan, int threads) : p_(plan), threads_(threads) {
    for (int d = 0; d + 2 < p_.rank; ++d) outer_ *= p_.size[d];
  }

  void Run(const KernelContext& context) override {
    const T* x = static_cast<const T*>(context.inputs[0]);
    T* y = static_cast<T*>(context.outputs[0]);
    const int64_t plane = p_.size[p_.rank - 2] * p_.size[p_.rank - 1];
    ParallelFor(threads_, outer_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) Plane(x + InputOffset(i), y + i * plane);
    });
  }

 private:
  int64_t InputOffset(int64_t outer) const {
    int64_t offset = 0;
    for (int d = p_.rank - 3; d >= 0; --d) {
      offset += outer % p_.size[d] * p_.stride[d];
      outer /= p_.size[d];
    }
    return offset;
  }

  // In squares of 16x16, so that both sides use whole cache lines.
  void Plane(const T* x, T* y) const {
    const int64_t rows = p_.size[p_.rank - 2], columns = p_.size[p_.rank - 1];
    const int64_t row_stride = p_.stride[p_.rank - 2], column_stride = p_.stride[p_.rank - 1];
    for (int64_t r0 = 0; r0 < rows; r0 += 16) {
      const int64_t r1 = std::min(r0 + 16, rows);
      for (int64_t c0 = 0; c0 < columns; c0 += 16) {
        const int64_t c1 = std::min(c0 + 16, columns);
        for (int64_t r = r0; r < r1; ++r) {
          for (int64_t c = c0; c < c1; ++c) {
            y[r * columns + c] = x[r * row_stride + c * column_stride];
          }
        }
      }
    }
  }

  const TransposePlan p_;
  const int threads_;
  int64_t outer_ = 1;
};

// Copies between one whole and its parts along an axis, all [outer][bytes of the part].
class PartsKernel : public Kernel {
 public:
  PartsKernel(int64_t outer, std::vector<int64_t> part_bytes, bool is_split)
      : outer_(outer), part_bytes_(std::move(part_bytes)), is_split_(is_split) {
    for (int64_t bytes : part_bytes_) whole_bytes_ += bytes;
  }

  void Run(const KernelContext& context) override {
    int64_t begin = 0;
    for (size_t k = 0; k < part_bytes_.size(); ++k) {
      const int64_t bytes = part_bytes_[k];
      const char* from = static_cast<const char*>(context.inputs[is_split_ ? 0 : k]);
      char* to = static_cast<char*>(context.outputs[is_split_ ? k : 0]);
      if (bytes > 0 && to != nullptr) CopyPart(from, to, begin, bytes);
      begin += bytes;
    }
  }

 private:
  void CopyPart(const char* from, char* to, int64_t begin, int64_t bytes) const {
    const int64_t from_stride = is_split_ ? whole_bytes_ : bytes;
    const int64_t to_stride = is_split_ ? bytes : whole_bytes_;
    from += is_split_ ? begin : 0;
    to += is_split_ ? 0 : begin;
    for (int64_t o = 0; o < outer_; ++o) {
      std::memcpy(to + o * to_stride, from + o * from_stride, static_cast<size_t>(bytes));
    }
  }

  const int64_t outer_;
  const std::vector<int64_t> part_bytes_;
  const bool is_split_;
  int64_t whole_bytes_ = 0;
};

// The axis counted from the front, or -1.
int AxisOf(const CpuRequest& request, const Shape& shape) {
  const int64_t axis = request.attributes().GetInt("axis", 0);
  const int64_t from_front = axis < 0 ? axis + shape.rank() : axis;
  return from_front >= 0 && from_front < shape.rank() ? static_cast<int>(from_front) : -1;
}

KernelOr CreateParts(const CpuRequest& request, const TensorSpec& whole,
                     absl::Span<const TensorSpec> parts, bool is_split) {
  const int axis = AxisOf(request, whole.shape);
  if (axis < 0) return request.Invalid("the axis is out of range");
  int64_t outer = 1, sum = 0;
  for (int d = 0; d < axis; ++d) outer *= whole.shape.dim(d);
  std::vector<int64_t> part_bytes;
  for (const TensorSpec& part : parts) {
    Shape same = part.shape;
    if (part.dtype != whole.dtype || part.shape.rank() != whole.shape.rank()) {
      return request.Invalid("want parts of one dtype and rank");
    }
    sum += part.shape.dim(axis);
    same.set_dim(axis, whole.shape.dim(axis));
    if (same != whole.shape) return request.Invalid("a part does not fit the whole");
    part_bytes.push_back(outer == 0 ? 0 : static_cast<int64_t>(part.bytes()) / outer);
  }
  if (sum != whole.shape.dim(axis)) return request.Invalid("the parts do not add up to the whole");
  return std::make_unique<PartsKernel>(outer, std::move(part_bytes), is_split);
}

}  // namespace

KernelOr CreateTranspose(const CpuRequest& request) {
  if (request.num_inputs() != 1 || request.num_outputs() != 1 ||
      request.input(0).dtype != request.output(0).dtype) {
    return request.Invalid("want one input and output of one dtype");
  }
  const Shape &from = request.input(0).shape, &to = request.output(0).shape;
  const std::vector<int64_t> perm = request.attributes().GetInts("perm", {});
  if (static_cast<int>(perm.size()) != from.rank() || to.rank() != from.rank()) {
    return request.Invalid("perm must name each axis once");
  }
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int d = from.rank() - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= from.dim(d);
  }
  TransposePlan plan;
  while (plan.rank < 2 - from.rank()) plan.size[plan.rank++] = 1;  // at least a matrix
  for (int d = 0; d < from.rank(); ++d) {
    if (perm[d] < 0 || perm[d] >= from.rank() || from.dim(static_cast<int>(perm[d])) != to.dim(d)) {
      return request.Invalid("perm must name each axis once");
    }
    plan.size[plan.rank] = to.dim(d);
    plan.stride[plan.rank++] = strides[perm[d]];
  }
  switch (SizeOf(request.input(0).dtype)) {
    case 1:
      return std::make_unique<TransposeKernel<uint8_t>>(plan, request.threads());
    case 4:
      return std::make_unique<TransposeKernel<uint32_t>>(plan, request.threads());
    case 8:
      return std::make_unique<TransposeKernel<uint64_t>>(plan, request.threads());
    default:
      return request.NoKernel();
  }
}

KernelOr CreateConcat(const CpuRequest& request) {
  if (request.num_inputs() < 1 || request.num_outputs() != 1) {
    return request.Invalid("want parts -> whole");
  }
  return CreateParts(request, request.output(0), request.request.inputs, false);
}

KernelOr CreateSplit(const CpuRequest& request) {
  if (request.num_inputs() < 1 || request.num_outputs() < 1) {
    return request.Invalid("want whole -> parts");
  }
  return CreateParts(request, request.input(0), request.request.outputs, true);
}

}  // namespace shoal::cpu
