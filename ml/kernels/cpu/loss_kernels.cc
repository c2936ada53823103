// Losses of a prediction and a target of floats: the mean squared error, and losses of single
// elements.

#include <algorithm>
#include <utility>

#include "ml/kernels/cpu/broadcast_loop.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// Return the two operands of a loop at one outer iteration.
struct Pair {
  Operand a, b;
};

Pair PairAt(const BroadcastLoop& loop, const float* a, const float* b, int64_t outer) {
  return {{a + loop.OuterOffset(outer, 0), loop.inner().stride[0] == 0},
          {b + loop.OuterOffset(outer, 1), loop.inner().stride[1] == 0}};
}

int64_t FullSize(const BroadcastLoop& loop) { return loop.outer_count() * loop.inner().size; }

// Computes the mean of (p - t)^2 over the broadcast shape, without making broadcast tensors. The
// number of parts of the sum depends only on the shape.
class MeanSquaredErrorKernel : public Kernel {
 public:
  MeanSquaredErrorKernel(const SimdKernels& simd, int threads, const BroadcastLoop& loop)
      : simd_(simd),
        threads_(threads),
        loop_(loop),
        outer_(loop.outer_count()),
        parts_(std::min<int64_t>(outer_, 64)) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(AlignedBytes(parts_ * static_cast<int64_t>(sizeof(double))));
  }

  void Run(const KernelContext& context) override {
    const float* p = FloatInput(context, 0);
    const float* t = FloatInput(context, 1);
    double* sums = static_cast<double*>(context.workspace);
    ParallelFor(threads_, parts_, [&](int64_t begin, int64_t end) {
      for (int64_t part = begin; part < end; ++part) {
        sums[part] = 0.0;
        for (int64_t i = part * outer_ / parts_; i < (part + 1) * outer_ / parts_; ++i) {
          const Pair pair = PairAt(loop_, p, t, i);
          sums[part] += simd_.sum_squared_difference(pair.a, pair.b, loop_.inner().size);
        }
      }
    });
    double total = 0.0;
    for (int64_t part = 0; part < parts_; ++part) total += sums[part];
    *FloatOutput(context, 0) = static_cast<float>(total / static_cast<double>(FullSize(loop_)));
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const BroadcastLoop loop_;
  const int64_t outer_;
  const int64_t parts_;
};

// dp = 2 dloss / n * (p - t), summed over the dimensions that p does not have.
class MeanSquaredErrorGradKernel : public Kernel {
 public:
  MeanSquaredErrorGradKernel(const SimdKernels& simd, int threads, const BroadcastLoop& loop,
                             int64_t dp_size)
      : simd_(simd),
        threads_(threads),
        loop_(loop),
        dp_size_(dp_size),
        p_is_full_(dp_size == FullSize(loop)) {}

  size_t workspace_bytes() const override {
    return p_is_full_ || loop_.inner().stride[0] == 0
               ? 0
               : static_cast<size_t>(AlignedBytes(loop_.inner().size * 4));
  }

  void Run(const KernelContext& context) override {
    const float* p = FloatInput(context, 0);
    const float* t = FloatInput(context, 1);
    float* dp = FloatOutput(context, 0);
    const float factor = static_cast<float>(2.0 * static_cast<double>(*FloatInput(context, 2)) /
                                            static_cast<double>(FullSize(loop_)));
    if (p_is_full_) return RunFull(p, t, dp, factor);
    std::fill_n(dp, dp_size_, 0.0f);
    if (loop_.inner().stride[0] == 0) return RunRowSums(p, t, dp, factor);
    float* row = static_cast<float*>(context.workspace);
    for (int64_t i = 0; i < loop_.outer_count(); ++i) {
      const Pair pair = PairAt(loop_, p, t, i);
      simd_.binary(BinaryOp::kSub, pair.a, pair.b, row, loop_.inner().size, 0.0f);
      simd_.multiply_accumulate({&factor, true}, {row, false}, dp + loop_.OuterOffset(i, 0),
                                loop_.inner().size);
    }
  }

 private:
  void RunFull(const float* p, const float* t, float* dp, float factor) {
    const int64_t n = loop_.inner().size;
    ParallelFor(threads_, loop_.outer_count(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Pair pair = PairAt(loop_, p, t, i);
        simd_.binary(BinaryOp::kSub, pair.a, pair.b, dp + i * n, n, 0.0f);
        simd_.scale(dp + i * n, factor, 0.0f, dp + i * n, n);
      }
    });
  }

  // A row of n targets has one prediction: its gradient is factor * (n p - sum of t).
  void RunRowSums(const float* p, const float* t, float* dp, float factor) {
    const int64_t n = loop_.inner().size;
    for (int64_t i = 0; i < loop_.outer_count(); ++i) {
      const Pair pair = PairAt(loop_, p, t, i);
      const double residual =
          static_cast<double>(n) * static_cast<double>(*pair.a.data) - simd_.sum(pair.b.data, n);
      dp[loop_.OuterOffset(i, 0)] += static_cast<float>(static_cast<double>(factor) * residual);
    }
  }

  const SimdKernels& simd_;
  const int threads_;
  const BroadcastLoop loop_;
  const int64_t dp_size_;
  const bool p_is_full_;
};

// loss = op(p, t), or with a third input dp = op(p, t) * dloss; all of one shape.
class ElementwiseLossKernel : public Kernel {
 public:
  ElementwiseLossKernel(const SimdKernels& simd, int threads, BinaryOp op, float parameter,
                        bool has_dloss, int64_t n)
      : simd_(simd),
        threads_(threads),
        op_(op),
        parameter_(parameter),
        has_dloss_(has_dloss),
        n_(n) {}

  void Run(const KernelContext& context) override {
    const float* p = FloatInput(context, 0);
    const float* t = FloatInput(context, 1);
    float* out = FloatOutput(context, 0);
    constexpr int64_t kChunk = 4096;
    ParallelFor(threads_, (n_ + kChunk - 1) / kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * kChunk; i < std::min(end * kChunk, n_); i += kChunk) {
        const int64_t n = std::min(kChunk, n_ - i);
        simd_.binary(op_, {p + i, false}, {t + i, false}, out + i, n, parameter_);
        if (!has_dloss_) continue;
        simd_.binary(BinaryOp::kMul, {out + i, false}, {FloatInput(context, 2) + i, false}, out + i,
                     n, 0.0f);
      }
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const BinaryOp op_;
  const float parameter_;
  const bool has_dloss_;
  const int64_t n_;
};

constexpr std::pair<absl::string_view, BinaryOp> kLosses[] = {
    {"AbsoluteDifference", BinaryOp::kAbsoluteDifference},
    {"AbsoluteDifferenceGrad", BinaryOp::kAbsoluteDifferenceGradient},
    {"Hinge", BinaryOp::kHinge},
    {"HingeGrad", BinaryOp::kHingeGradient},
    {"Huber", BinaryOp::kHuber},
    {"HuberGrad", BinaryOp::kHuberGradient},
    {"SigmoidCrossEntropy", BinaryOp::kSigmoidCrossEntropy},
    {"SigmoidCrossEntropyGrad", BinaryOp::kSigmoidCrossEntropyGradient},
    {"LogLoss", BinaryOp::kLogLoss},
    {"LogLossGrad", BinaryOp::kLogLossGradient},
};

float LossParameter(BinaryOp op, const Attributes& attributes) {
  if (op == BinaryOp::kHuber || op == BinaryOp::kHuberGradient) {
    return static_cast<float>(attributes.GetDouble("delta", 1.0));
  }
  return static_cast<float>(attributes.GetDouble("epsilon", 1e-7));
}

KernelOr CreateLoss(const CpuRequest& request, bool has_dloss) {
  const int64_t n = request.output(0).shape.num_elements();
  for (const TensorSpec& spec : request.request.inputs) {
    if (spec.shape.num_elements() != n) return request.Invalid("want equal shapes");
  }
  for (const auto& [name, op] : kLosses) {
    if (name == request.request.op) {
      return std::make_unique<ElementwiseLossKernel>(request.simd, request.threads(), op,
                                                     LossParameter(op, request.attributes()),
                                                     has_dloss, n);
    }
  }
  return request.NoKernel();
}

absl::StatusOr<BroadcastLoop> ErrorLoop(const CpuRequest& request) {
  const Shape& p = request.input(0).shape;
  const Shape& t = request.input(1).shape;
  const absl::StatusOr<Shape> full = BroadcastShape(p, t);
  if (!full.ok()) return request.Invalid(full.status().message());
  return MakeBroadcastLoop(*full, {p, t});
}

}  // namespace

KernelOr CreateMeanSquaredError(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  const absl::StatusOr<BroadcastLoop> loop = ErrorLoop(request);
  if (!loop.ok()) return loop.status();
  return std::make_unique<MeanSquaredErrorKernel>(request.simd, request.threads(), *loop);
}

KernelOr CreateMeanSquaredErrorGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(3, 3, 1); !status.ok()) return status;
  const absl::StatusOr<BroadcastLoop> loop = ErrorLoop(request);
  if (!loop.ok()) return loop.status();
  return std::make_unique<MeanSquaredErrorGradKernel>(request.simd, request.threads(), *loop,
                                                      request.input(0).shape.num_elements());
}

KernelOr CreateElementwiseLoss(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  return CreateLoss(request, false);
}

KernelOr CreateElementwiseLossGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(3, 3, 1); !status.ok()) return status;
  return CreateLoss(request, true);
}

}  // namespace shoal::cpu
