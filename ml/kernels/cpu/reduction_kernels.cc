// Reductions to fewer dimensions, and BroadcastTo.

#include <algorithm>
#include <cstring>
#include <vector>

#include "ml/kernels/cpu/broadcast_loop.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/selection_kernels.h"

namespace shoal::cpu {
namespace {

using Dims = std::vector<BroadcastLoop::Dim>;

int64_t CountOf(const Dims& dims) {
  int64_t count = 1;
  for (const BroadcastLoop::Dim& dim : dims) count *= dim.size;
  return count;
}

int64_t OffsetOf(const Dims& dims, int64_t index, int operand) {
  int64_t offset = 0;
  for (size_t d = dims.size(); d-- > 0;) {
    offset += index % dims[d].size * dims[d].stride[operand];
    index /= dims[d].size;
  }
  return offset;
}

// y = factor * the sum of x over the dimensions that y does not have. The loop's operands are x and
// y.
//
// The innermost dimension is either summed (rows of contiguous numbers) or kept (columns: up to
// kRun rows are added in registers, then the runs in float). Threads take different elements of y,
// or parts of the rows whose number depends on the shape alone and whose sums are added in order.
class ReduceKernel : public Kernel {
 public:
  ReduceKernel(const SimdKernels& simd, int threads, const BroadcastLoop& loop, float factor)
      : simd_(simd), threads_(threads), factor_(factor) {
    int last = loop.rank - 1;
    sums_inner_ = loop.inner().stride[1] == 0;
    inner_ = loop.inner().size;
    if (!sums_inner_ && last > 0 && loop.dims[last - 1].stride[1] == 0) {
      rows_ = loop.dims[last - 1].size;
      --last;
    }
    for (int d = 0; d < last; ++d) {
      (loop.dims[d].stride[1] == 0 ? summed_ : kept_).push_back(loop.dims[d]);
    }
    parts_ = std::clamp<int64_t>((rows_ + kRun - 1) / kRun, 1, kMaxParts);
  }

  size_t workspace_bytes() const override {
    return sums_inner_ ? 0 : static_cast<size_t>(inner_ * parts_ * 2 * 4);
  }

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    const int64_t kept = CountOf(kept_);
    if (sums_inner_) {
      ParallelFor(threads_, kept, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          SumRows(x + OffsetOf(kept_, i, 0), y + OffsetOf(kept_, i, 1));
      });
      return;
    }
    float* scratch = static_cast<float*>(context.workspace);
    for (int64_t i = 0; i < kept; ++i) {
      SumColumns(x + OffsetOf(kept_, i, 0), y + OffsetOf(kept_, i, 1), scratch);
    }
  }

 private:
  static constexpr int64_t kRun = 256;
  static constexpr int64_t kMaxParts = 64;

  void SumRows(const float* x, float* y) const {
    double total = 0.0;
    const int64_t summed = CountOf(summed_);
    for (int64_t i = 0; i < summed; ++i) total += simd_.sum(x + OffsetOf(summed_, i, 0), inner_);
    *y = static_cast<float>(total * static_cast<double>(factor_));
  }

  void SumColumns(const float* x, float* y, float* scratch) const {
    std::fill_n(y, inner_, 0.0f);
    const int64_t rows_per_part = (rows_ + parts_ - 1) / parts_;
    const int64_t summed = CountOf(summed_);
    for (int64_t i = 0; i < summed; ++i) {
      const float* block = x + OffsetOf(summed_, i, 0);
      ParallelFor(threads_, parts_, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p) {
          float* part = scratch + p * 2 * inner_;
          SumPart(block + p * rows_per_part * inner_,
                  std::min(rows_per_part, rows_ - p * rows_per_part), part, part + inner_);
        }
      });
      for (int64_t p = 0; p < parts_; ++p) simd_.accumulate(scratch + p * 2 * inner_, y, inner_);
    }
    if (factor_ != 1.0f) simd_.scale(y, factor_, 0.0f, y, inner_);
  }

  void SumPart(const float* x, int64_t rows, float* part, float* run) const {
    std::fill_n(part, inner_, 0.0f);
    for (int64_t r = 0; r < rows; r += kRun) {
      simd_.activation_gradient(Activation::kNone, nullptr, x + r * inner_, nullptr,
                                std::min(kRun, rows - r), inner_, run);
      simd_.accumulate(run, part, inner_);
    }
  }

  const SimdKernels& simd_;
  const int threads_;
  const float factor_;
  bool sums_inner_ = false;
  int64_t inner_ = 1;
  int64_t rows_ = 1;
  int64_t parts_ = 1;
  Dims kept_;    // outer dimensions of y
  Dims summed_;  // outer dimensions that are summed, `rows_` not among them
};

// The largest or smallest of the elements of x over the dimensions that y does not have. The loop's
// operands are x and y.
class ReduceExtremeKernel : public Kernel {
 public:
  ReduceExtremeKernel(const CpuRequest& request, const BroadcastLoop& loop, bool largest)
      : simd_(request.simd),
        selection_(SelectionKernelsFor(request.isa)),
        threads_(request.threads()),
        largest_(largest),
        inner_(loop.inner().size),
        takes_inner_(loop.inner().stride[1] == 0) {
    for (int d = 0; d + 1 < loop.rank; ++d) {
      (loop.dims[d].stride[1] == 0 ? taken_ : kept_).push_back(loop.dims[d]);
    }
  }

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    const int64_t chunks = takes_inner_ ? 1 : (inner_ + kColumns - 1) / kColumns;
    ParallelFor(threads_, CountOf(kept_) * chunks, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* from = x + OffsetOf(kept_, i / chunks, 0);
        float* to = y + OffsetOf(kept_, i / chunks, 1);
        if (takes_inner_) {
          *to = ExtremeOfRows(from);
        } else {
          const int64_t column = i % chunks * kColumns;
          TakeColumns(from + column, to + column, std::min(kColumns, inner_ - column));
        }
      }
    });
  }

 private:
  static constexpr int64_t kColumns = 1024;

  float ExtremeOfRows(const float* x) const {
    float best = selection_.extreme(largest_, x, inner_);
    for (int64_t i = 1; i < CountOf(taken_); ++i) {
      const float row[2] = {best, selection_.extreme(largest_, x + OffsetOf(taken_, i, 0), inner_)};
      best = selection_.extreme(largest_, row, 2);
    }
    return best;
  }

  void TakeColumns(const float* x, float* y, int64_t columns) const {
    std::memcpy(y, x, static_cast<size_t>(columns) * 4);
    const BinaryOp op = largest_ ? BinaryOp::kMaximum : BinaryOp::kMinimum;
    for (int64_t i = 1; i < CountOf(taken_); ++i) {
      simd_.binary(op, {y, false}, {x + OffsetOf(taken_, i, 0), false}, y, columns, 0.0f);
    }
  }

  const SimdKernels& simd_;
  const SelectionKernels& selection_;
  const int threads_;
  const bool largest_;
  const int64_t inner_;
  const bool takes_inner_;
  Dims kept_, taken_;  // outer dimensions of y, and those that are reduced
};

class BroadcastToKernel : public Kernel {
 public:
  BroadcastToKernel(const SimdKernels& simd, int threads, const BroadcastLoop& loop)
      : simd_(simd), threads_(threads), loop_(loop) {}

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    const BroadcastLoop::Dim& inner = loop_.inner();
    const float zero = 0.0f;
    ParallelFor(threads_, loop_.outer_count(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const float* from = x + loop_.OuterOffset(i, 0);
        float* to = y + i * inner.size;
        if (inner.stride[0] == 0) {
          simd_.binary(BinaryOp::kAdd, {from, true}, {&zero, true}, to, inner.size, 0.0f);
        } else {
          std::memcpy(to, from, static_cast<size_t>(inner.size) * 4);
        }
      }
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const BroadcastLoop loop_;
};

// Half the sum of squares.
class L2LossKernel : public Kernel {
 public:
  L2LossKernel(const SimdKernels& simd, int64_t n) : simd_(simd), n_(n) {}

  void Run(const KernelContext& context) override {
    *FloatOutput(context, 0) =
        static_cast<float>(0.5 * simd_.sum_squares(FloatInput(context, 0), n_));
  }

 private:
  const SimdKernels& simd_;
  const int64_t n_;
};

KernelOr CreateReduction(const CpuRequest& request, const Shape& kept, bool mean) {
  if (request.input(0).layout != Layout::kPlain) return request.Invalid("want plain order");
  const Shape& full = request.input(0).shape;
  const absl::StatusOr<BroadcastLoop> loop = MakeBroadcastLoop(full, {full, kept});
  if (!loop.ok()) return request.Invalid(loop.status().message());
  const int64_t terms = full.num_elements() / std::max<int64_t>(kept.num_elements(), 1);
  const float factor = mean && terms > 0 ? 1.0f / static_cast<float>(terms) : 1.0f;
  return std::make_unique<ReduceKernel>(request.simd, request.threads(), *loop, factor);
}

// Returns the input's shape with size 1 for the reduced axes.
absl::StatusOr<Shape> KeptShape(const CpuRequest& request) {
  Shape kept = request.input(0).shape;
  const std::vector<int64_t> axes = request.attributes().GetInts("axes", {});
  for (int64_t axis : axes) {
    const int64_t d = axis < 0 ? axis + kept.rank() : axis;
    if (d < 0 || d >= kept.rank()) return request.Invalid("an axis is out of range");
    kept.set_dim(static_cast<int>(d), 1);
  }
  for (int d = 0; axes.empty() && d < kept.rank(); ++d) kept.set_dim(d, 1);
  if (kept.num_elements() != request.output(0).shape.num_elements()) {
    return request.Invalid("the output does not fit the axes");
  }
  return kept;
}

}  // namespace

KernelOr CreateSumTo(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 2, 1); !status.ok()) return status;
  return CreateReduction(request, request.output(0).shape, false);
}

KernelOr CreateReduce(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const absl::StatusOr<Shape> kept = KeptShape(request);
  if (!kept.ok()) return kept.status();
  return CreateReduction(request, *kept, request.request.op == "ReduceMean");
}

KernelOr CreateReduceExtreme(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const absl::StatusOr<Shape> kept = KeptShape(request);
  if (!kept.ok()) return kept.status();
  const Shape& full = request.input(0).shape;
  if (request.input(0).layout != Layout::kPlain) return request.Invalid("want plain order");
  if (full.num_elements() == 0) return request.Invalid("want at least one element");
  const absl::StatusOr<BroadcastLoop> loop = MakeBroadcastLoop(full, {full, *kept});
  if (!loop.ok()) return request.Invalid(loop.status().message());
  return std::make_unique<ReduceExtremeKernel>(request, *loop, request.request.op == "ReduceMax");
}

KernelOr CreateBroadcastTo(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 2, 1); !status.ok()) return status;
  const absl::StatusOr<BroadcastLoop> loop =
      MakeBroadcastLoop(request.output(0).shape, {request.input(0).shape});
  if (!loop.ok()) return request.Invalid(loop.status().message());
  return std::make_unique<BroadcastToKernel>(request.simd, request.threads(), *loop);
}

KernelOr CreateL2Loss(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  return std::make_unique<L2LossKernel>(request.simd, request.input(0).shape.num_elements());
}

}  // namespace shoal::cpu
