// Ops on elements with attributes (Clip, LeakyRelu, Elu, Gelu, ...), their gradients, and Pow.

#include "ml/kernels/cpu/simd/math_kernels.h"

#include <limits>
#include <utility>

#include "ml/kernels/cpu/elementwise_loops.h"

namespace shoal::cpu {
namespace {

struct Function {
  MathOp op;
  float p, q;
};

class MathKernel : public Kernel {
 public:
  MathKernel(const CpuRequest& request, Function function, int64_t n)
      : simd_(MathKernelsFor(request.isa)), threads_(request.threads()), f_(function), n_(n) {}

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    ParallelChunks(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.unary(f_.op, x + begin, f_.p, f_.q, y + begin, end - begin);
    });
  }

 private:
  const MathKernels& simd_;
  const int threads_;
  const Function f_;
  const int64_t n_;
};

class MathGradKernel : public Kernel {
 public:
  MathGradKernel(const CpuRequest& request, Function function, int64_t n)
      : simd_(MathKernelsFor(request.isa)), threads_(request.threads()), f_(function), n_(n) {}

  void Run(const KernelContext& context) override {
    const float* v = FloatInput(context, 0);
    const float* dy = FloatInput(context, 1);
    float* dx = FloatOutput(context, 0);
    ParallelChunks(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.gradient(f_.op, v + begin, dy + begin, f_.p, f_.q, dx + begin, end - begin);
    });
  }

 private:
  const MathKernels& simd_;
  const int threads_;
  const Function f_;
  const int64_t n_;
};

class PowKernel : public Kernel {
 public:
  PowKernel(const CpuRequest& request, const BroadcastLoop& loop)
      : simd_(MathKernelsFor(request.isa)), threads_(request.threads()), loop_(loop) {}

  void Run(const KernelContext& context) override {
    const BroadcastLoop::Dim& inner = loop_.inner();
    float* c = FloatOutput(context, 0);
    ParallelBroadcast(threads_, loop_, [&](int64_t outer, int64_t begin, int64_t end) {
      const auto operand = [&](int k) {
        const int64_t stride = inner.stride[k];
        return Operand{FloatInput(context, k) + loop_.OuterOffset(outer, k) + begin * stride,
                       stride == 0};
      };
      simd_.power(operand(0), operand(1), c + outer * inner.size + begin, end - begin);
    });
  }

 private:
  const MathKernels& simd_;
  const int threads_;
  const BroadcastLoop loop_;
};

// The function and the parameters for an op (without "Grad") and its attributes.
absl::StatusOr<Function> FunctionOf(const CpuRequest& request, absl::string_view op) {
  const Attributes& attributes = request.attributes();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (op == "Clip") {
    return Function{MathOp::kClip, static_cast<float>(attributes.GetDouble("min", -kInfinity)),
                    static_cast<float>(attributes.GetDouble("max", kInfinity))};
  }
  if (op == "LeakyRelu") {
    return Function{MathOp::kLeakyRelu, static_cast<float>(attributes.GetDouble("alpha", 0.01)), 0};
  }
  if (op == "Elu") {
    return Function{MathOp::kElu, static_cast<float>(attributes.GetDouble("alpha", 1.0)), 0};
  }
  if (op == "Gelu") {
    const std::string approximate = attributes.GetString("approximate", "none");
    if (approximate != "none" && approximate != "tanh") {
      return request.Invalid("approximate must be none or tanh");
    }
    return Function{approximate == "tanh" ? MathOp::kGeluTanh : MathOp::kGelu, 0, 0};
  }
  if (op == "Erf") return Function{MathOp::kErf, 0, 0};
  if (op == "Silu") return Function{MathOp::kSilu, 0, 0};
  if (op == "Softplus") return Function{MathOp::kSoftplus, 0, 0};
  return request.NoKernel();
}

bool HaveOneShape(const CpuRequest& request) {
  for (const TensorSpec& spec : request.request.inputs) {
    if (spec.shape != request.output(0).shape) return false;
  }
  return request.HasOneLayout();
}

}  // namespace

KernelOr CreateMath(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  if (!HaveOneShape(request)) return request.Invalid("want equal shapes");
  const absl::StatusOr<Function> function = FunctionOf(request, request.request.op);
  if (!function.ok()) return function.status();
  return std::make_unique<MathKernel>(request, *function, request.output(0).shape.num_elements());
}

KernelOr CreateMathGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  if (!HaveOneShape(request)) return request.Invalid("want equal shapes");
  absl::string_view op = request.request.op;
  op.remove_suffix(4);  // "Grad"
  const absl::StatusOr<Function> function = FunctionOf(request, op);
  if (!function.ok()) return function.status();
  return std::make_unique<MathGradKernel>(request, *function,
                                          request.output(0).shape.num_elements());
}

KernelOr CreatePow(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  const absl::StatusOr<BroadcastLoop> loop = ElementwiseLoop(request);
  if (!loop.ok()) return request.Invalid(loop.status().message());
  return std::make_unique<PowKernel>(request, *loop);
}

}  // namespace shoal::cpu
