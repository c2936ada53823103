// Ops in which an element of the output depends on one element of each input, and copies.

#include <algorithm>
#include <cstring>
#include <utility>

#include "ml/kernels/cpu/elementwise_loops.h"
#include "ml/kernels/cpu/kernel_families.h"

namespace shoal::cpu {
namespace {

class UnaryKernel : public Kernel {
 public:
  UnaryKernel(const SimdKernels& simd, int threads, UnaryOp op, int64_t n)
      : simd_(simd), threads_(threads), op_(op), n_(n) {}

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    ParallelChunks(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.unary(op_, x + begin, y + begin, end - begin);
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const UnaryOp op_;
  const int64_t n_;
};

class BinaryKernel : public Kernel {
 public:
  BinaryKernel(const SimdKernels& simd, int threads, BinaryOp op, const BroadcastLoop& loop)
      : simd_(simd), threads_(threads), op_(op), loop_(loop) {}

  void Run(const KernelContext& context) override {
    const float* a = FloatInput(context, 0);
    const float* b = FloatInput(context, 1);
    float* c = FloatOutput(context, 0);
    const BroadcastLoop::Dim& inner = loop_.inner();
    ParallelBroadcast(threads_, loop_, [&](int64_t outer, int64_t begin, int64_t end) {
      const Operand left{a + loop_.OuterOffset(outer, 0) + begin * inner.stride[0],
                         inner.stride[0] == 0};
      const Operand right{b + loop_.OuterOffset(outer, 1) + begin * inner.stride[1],
                          inner.stride[1] == 0};
      simd_.binary(op_, left, right, c + outer * inner.size + begin, end - begin, 0.0f);
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const BinaryOp op_;
  const BroadcastLoop loop_;
};

// The inputs are added in their order, 16 Ki elements at a time.
class AddNKernel : public Kernel {
 public:
  AddNKernel(const SimdKernels& simd, int threads, int inputs, int64_t n)
      : simd_(simd), threads_(threads), inputs_(inputs), n_(n) {}

  void Run(const KernelContext& context) override {
    float* y = FloatOutput(context, 0);
    ParallelChunks(threads_, n_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += kElementChunk) {
        const int64_t count = std::min(kElementChunk, end - i);
        std::memcpy(y + i, FloatInput(context, 0) + i, static_cast<size_t>(count) * 4);
        for (int k = 1; k < inputs_; ++k) {
          simd_.accumulate(FloatInput(context, k) + i, y + i, count);
        }
      }
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const int inputs_;
  const int64_t n_;
};

class ScaleKernel : public Kernel {
 public:
  ScaleKernel(const SimdKernels& simd, int threads, float factor, int64_t n)
      : simd_(simd), threads_(threads), factor_(factor), n_(n) {}

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    ParallelChunks(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.scale(x + begin, factor_, 0.0f, y + begin, end - begin);
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const float factor_;
  const int64_t n_;
};

// Copies the bytes of the input: Identity, and Reshape if it is not an alias.
class CopyKernel : public Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}

  void Run(const KernelContext& context) override {
    if (bytes_ > 0) std::memcpy(context.outputs[0], context.inputs[0], bytes_);
  }

 private:
  const size_t bytes_;
};

constexpr std::pair<absl::string_view, UnaryOp> kUnaryOps[] = {
    {"Relu", UnaryOp::kRelu},     {"Sigmoid", UnaryOp::kSigmoid},
    {"Tanh", UnaryOp::kTanh},     {"Exp", UnaryOp::kExp},
    {"Log", UnaryOp::kLog},       {"Sqrt", UnaryOp::kSqrt},
    {"Neg", UnaryOp::kNeg},       {"Abs", UnaryOp::kAbs},
    {"Square", UnaryOp::kSquare}, {"Reciprocal", UnaryOp::kReciprocal},
};

constexpr std::pair<absl::string_view, BinaryOp> kBinaryOps[] = {
    {"Add", BinaryOp::kAdd},
    {"Sub", BinaryOp::kSub},
    {"Mul", BinaryOp::kMul},
    {"Div", BinaryOp::kDiv},
    {"Maximum", BinaryOp::kMaximum},
    {"Minimum", BinaryOp::kMinimum},
    {"SquaredDifference", BinaryOp::kSquaredDifference},
    {"ReluGrad", BinaryOp::kReluGradient},
    {"SigmoidGrad", BinaryOp::kSigmoidGradient},
    {"TanhGrad", BinaryOp::kTanhGradient},
};

}  // namespace

KernelOr CreateUnary(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const int64_t n = request.output(0).shape.num_elements();
  if (request.input(0).shape.num_elements() != n || !request.HasOneLayout()) {
    return request.Invalid("want equal shapes");
  }
  for (const auto& [name, op] : kUnaryOps) {
    if (name == request.request.op) {
      return std::make_unique<UnaryKernel>(request.simd, request.threads(), op, n);
    }
  }
  return request.NoKernel();
}

KernelOr CreateBinary(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  const absl::StatusOr<BroadcastLoop> loop = ElementwiseLoop(request);
  if (!loop.ok()) return request.Invalid(loop.status().message());
  for (const auto& [name, op] : kBinaryOps) {
    if (name == request.request.op) {
      return std::make_unique<BinaryKernel>(request.simd, request.threads(), op, *loop);
    }
  }
  return request.NoKernel();
}

KernelOr CreateAddN(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1 << 20, 1); !status.ok()) return status;
  const int64_t n = request.output(0).shape.num_elements();
  for (const TensorSpec& spec : request.request.inputs) {
    if (spec.shape.num_elements() != n) return request.Invalid("want equal shapes");
  }
  if (!request.HasOneLayout()) return request.Invalid("want equal layouts");
  return std::make_unique<AddNKernel>(request.simd, request.threads(), request.num_inputs(), n);
}

KernelOr CreateScale(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 3, 1); !status.ok()) return status;
  const int64_t n = request.output(0).shape.num_elements();
  if (request.input(0).shape.num_elements() != n) return request.Invalid("want equal shapes");
  return std::make_unique<ScaleKernel>(
      request.simd, request.threads(),
      static_cast<float>(request.attributes().GetDouble("factor", 1.0)), n);
}

KernelOr CreateCopy(const CpuRequest& request) {
  if (request.num_inputs() < 1 || request.num_outputs() != 1 ||
      request.input(0).bytes() != request.output(0).bytes() ||
      request.input(0).dtype != request.output(0).dtype) {
    return request.Invalid("want as many elements out as in, of one type");
  }
  return std::make_unique<CopyKernel>(request.output(0).bytes());
}

}  // namespace shoal::cpu
