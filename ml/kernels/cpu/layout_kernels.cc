// ReorderLayout, and which ops work on blocks of 16 channels.

#include <algorithm>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// One block of 16 channels: [16][pixels] <-> [pixels][16].
class ReorderKernel : public Kernel {
 public:
  ReorderKernel(int64_t blocks, int64_t pixels, bool to_blocked, int threads)
      : blocks_(blocks), pixels_(pixels), to_blocked_(to_blocked), threads_(threads) {}

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    const int64_t size = pixels_ * 16;
    ParallelFor(threads_, blocks_, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        if (to_blocked_) {
          ToBlocked(x + b * size, y + b * size);
        } else {
          ToPlain(x + b * size, y + b * size);
        }
      }
    });
  }

 private:
  void ToBlocked(const float* x, float* y) const {
    for (int64_t p = 0; p < pixels_; ++p) {
      for (int c = 0; c < 16; ++c) y[p * 16 + c] = x[c * pixels_ + p];
    }
  }

  void ToPlain(const float* x, float* y) const {
    for (int c = 0; c < 16; ++c) {
      for (int64_t p = 0; p < pixels_; ++p) y[c * pixels_ + p] = x[p * 16 + c];
    }
  }

  const int64_t blocks_, pixels_;
  const bool to_blocked_;
  const int threads_;
};

constexpr absl::string_view kElementwise[] = {
    "Abs",      "AddN",  "Exp",     "Identity",    "Log",  "Neg",    "Reciprocal", "Relu",
    "ReluGrad", "Scale", "Sigmoid", "SigmoidGrad", "Sqrt", "Square", "Tanh",       "TanhGrad",
};

}  // namespace

bool TakesBlockedLayout(absl::string_view op, const Attributes& attributes, Port port, int index) {
  (void)attributes;
  const bool input = port == Port::kInput;
  if (op == "Conv" || op == "MaxPool" || op == "ConvPool" || op == "AveragePool") {
    return !input || index == 0;
  }
  if (op == "ConvGrad" || op == "ConvPoolGrad") return input ? index != 1 : index == 0;
  if (op == "MaxPoolGrad" || op == "AveragePoolGrad") return true;
  return std::find(std::begin(kElementwise), std::end(kElementwise), op) != std::end(kElementwise);
}

KernelOr CreateReorderLayout(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const TensorSpec& from = request.input(0);
  const TensorSpec& to = request.output(0);
  if (from.shape != to.shape) return request.Invalid("want equal shapes");
  if (from.layout == to.layout) return CreateCopy(request);
  if (from.shape.rank() != 4 || from.shape.dim(1) % 16 != 0) {
    return request.Invalid("want images with a multiple of 16 channels");
  }
  return std::make_unique<ReorderKernel>(from.shape.dim(0) * from.shape.dim(1) / 16,
                                         from.shape.dim(2) * from.shape.dim(3),
                                         to.layout == Layout::kBlocked16, request.threads());
}

}  // namespace shoal::cpu
