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

// The axes of the output with their strides in the input; adjacent axes are merged if they are
// contiguous in both. Two axes form planes: the last one, along which the output is contiguous, and
// the one along which the input is. All strides are in elements.
struct TransposePlan {
  struct Axis {
    int64_t size, from, to;  // `from` and `to` are strides of the input and the output
  };
  std::vector<Axis> outer;
  Axis rows{1, 1, 1};     // the input's contiguous axis
  Axis columns{1, 1, 1};  // the output's; the same axis where `is_copy`
  bool is_copy = false;   // columns are contiguous in both, there are no rows
};

TransposePlan MakeTransposePlan(const Shape& from, const Shape& to,
                                const std::vector<int64_t>& perm) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  for (int64_t d = from.rank() - 1, stride = 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= from.dim(static_cast<int>(d));
  }
  std::vector<TransposePlan::Axis> axes;  // innermost first
  int64_t stride = 1;
  for (int d = to.rank() - 1; d >= 0; --d) {
    const TransposePlan::Axis axis{to.dim(d), strides[perm[d]], stride};
    stride *= axis.size;
    if (axis.size == 1) continue;
    if (!axes.empty() && axis.from == axes.back().from * axes.back().size) {
      axes.back().size *= axis.size;
    } else {
      axes.push_back(axis);
    }
  }
  TransposePlan plan;
  if (axes.empty()) axes.push_back({to.num_elements(), 1, 1});
  plan.columns = axes[0];
  plan.is_copy = plan.columns.from == 1;
  for (size_t d = 1; d < axes.size(); ++d) {
    if (!plan.is_copy && axes[d].from == 1) {
      plan.rows = axes[d];
    } else {
      plan.outer.push_back(axes[d]);
    }
  }
  return plan;
}

template <typename T>
class TransposeKernel : public Kernel {
 public:
  TransposeKernel(TransposePlan plan, int threads)
      : p_(std::move(plan)), row_blocks_((p_.rows.size + kRows - 1) / kRows) {
    for (const TransposePlan::Axis& axis : p_.outer) outer_ *= axis.size;
    threads_ = outer_ * p_.rows.size * p_.columns.size > 8192 ? threads : 1;
  }

  void Run(const KernelContext& context) override {
    const T* x = static_cast<const T*>(context.inputs[0]);
    T* y = static_cast<T*>(context.outputs[0]);
    if (p_.columns.size == 0 || p_.rows.size == 0) return;
    ParallelFor(threads_, outer_ * row_blocks_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t from = 0, to = 0, rest = i / row_blocks_;
        for (const TransposePlan::Axis& axis : p_.outer) {
          from += rest % axis.size * axis.from;
          to += rest % axis.size * axis.to;
          rest /= axis.size;
        }
        const int64_t row = i % row_blocks_ * kRows;
        if (p_.is_copy) {
          std::copy_n(x + from, p_.columns.size, y + to);
        } else {
          Rows(x + from + row, y + to + row * p_.rows.to, std::min(kRows, p_.rows.size - row));
        }
      }
    });
  }

 private:
  static constexpr int64_t kBlock = 16;
  static constexpr int64_t kRows = 64;  // taken together: one page of x for several cache lines

  // In squares of 16x16 by way of a small one: each cache line of x is read, and each of y written,
  // in one go, since all 16 may fall into one set of the cache.
  void Rows(const T* x, T* y, int64_t rows) const {
    for (int64_t c0 = 0; c0 < p_.columns.size; c0 += kBlock) {
      const int64_t columns = std::min(kBlock, p_.columns.size - c0);
      for (int64_t r0 = 0; r0 < rows; r0 += kBlock) {
        const T* from = x + c0 * p_.columns.from + r0;
        T* to = y + r0 * p_.rows.to + c0;
        if (rows - r0 >= kBlock && columns == kBlock) {
          Square(from, to, kBlock, kBlock);
        } else {
          Square(from, to, std::min(kBlock, rows - r0), columns);
        }
      }
    }
  }

  inline void Square(const T* x, T* y, int64_t rows, int64_t columns) const {
    T square[kBlock][kBlock];
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t r = 0; r < rows; ++r) square[r][c] = x[c * p_.columns.from + r];
    }
    for (int64_t r = 0; r < rows; ++r) std::copy_n(square[r], columns, y + r * p_.rows.to);
  }

  const TransposePlan p_;
  const int64_t row_blocks_;
  int threads_;
  int64_t outer_ = 1;
};

// Copies between a tensor and its parts along an axis, all of which are seen as [outer][bytes of
// the part].
class PartsKernel : public Kernel {
 public:
  PartsKernel(int64_t outer, std::vector<int64_t> part_bytes, bool is_split, int threads)
      : outer_(outer), part_bytes_(std::move(part_bytes)), is_split_(is_split) {
    for (int64_t bytes : part_bytes_) whole_bytes_ += bytes;
    threads_ = outer_ * whole_bytes_ > 65536 ? threads : 1;
  }

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, outer_, [&](int64_t begin, int64_t end) {
      int64_t at = 0;
      for (size_t k = 0; k < part_bytes_.size(); ++k) {
        const char* from = static_cast<const char*>(context.inputs[is_split_ ? 0 : k]);
        char* to = static_cast<char*>(context.outputs[is_split_ ? k : 0]);
        if (part_bytes_[k] > 0 && to != nullptr) CopyPart(from, to, at, part_bytes_[k], begin, end);
        at += part_bytes_[k];
      }
    });
  }

 private:
  void CopyPart(const char* from, char* to, int64_t at, int64_t bytes, int64_t begin,
                int64_t end) const {
    const int64_t from_stride = is_split_ ? whole_bytes_ : bytes;
    const int64_t to_stride = is_split_ ? bytes : whole_bytes_;
    from += is_split_ ? at : 0;
    to += is_split_ ? 0 : at;
    for (int64_t o = begin; o < end; ++o) {
      std::memcpy(to + o * to_stride, from + o * from_stride, static_cast<size_t>(bytes));
    }
  }

  const int64_t outer_;
  const std::vector<int64_t> part_bytes_;
  const bool is_split_;
  int threads_;
  int64_t whole_bytes_ = 0;
};

// Returns the axis counted from the front, or -1 if it is out of range.
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
  return std::make_unique<PartsKernel>(outer, std::move(part_bytes), is_split, request.threads());
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
  std::vector<bool> used(perm.size(), false);
  for (int d = 0; d < from.rank(); ++d) {
    const int64_t axis = perm[d];
    if (axis < 0 || axis >= from.rank() || used[axis] ||
        from.dim(static_cast<int>(axis)) != to.dim(d)) {
      return request.Invalid("perm must name each axis once");
    }
    used[axis] = true;
  }
  const TransposePlan plan = MakeTransposePlan(from, to, perm);
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
