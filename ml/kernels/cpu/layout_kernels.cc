// ReorderLayout, which ops work on blocks of 16 channels, and kernels whose inputs come in
// different orders.

#include <algorithm>

#include "absl/strings/match.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/layout_reorder.h"

namespace shoal::cpu {
namespace {

class ReorderKernel : public Kernel {
 public:
  ReorderKernel(const LayoutReorder& reorder, int threads) : reorder_(reorder), threads_(threads) {}

  void Run(const KernelContext& context) override {
    reorder_.Run(threads_, FloatInput(context, 0), FloatOutput(context, 0));
  }

 private:
  const LayoutReorder reorder_;
  const int threads_;
};

constexpr absl::string_view kElementwise[] = {
    "Abs",        "Add",       "AddN",
    "Clip",       "ClipGrad",  "Div",
    "Elu",        "EluGrad",   "Erf",
    "Exp",        "Gelu",      "GeluGrad",
    "Identity",   "LeakyRelu", "LeakyReluGrad",
    "Log",        "Maximum",   "Minimum",
    "Mul",        "Neg",       "Pow",
    "Reciprocal", "Relu",      "ReluGrad",
    "Scale",      "Sigmoid",   "SigmoidGrad",
    "Silu",       "SiluGrad",  "Softplus",
    "Sqrt",       "Square",    "SquaredDifference",
    "Sub",        "Tanh",      "TanhGrad",
};

}  // namespace

bool TakesBlockedLayout(absl::string_view op, const Attributes& attributes, Port port, int index) {
  (void)attributes;
  const bool input = port == Port::kInput;
  if (op == "Conv" || op == "ConvTranspose" || op == "MaxPool" || op == "ConvPool" ||
      op == "AveragePool") {
    return !input || index == 0;
  }
  if (op == "ConvBatchNormGrad") return input ? index == 0 || index == 2 || index == 6 : index == 0;
  if (op == "ConvGrad" || op == "ConvPoolGrad") return input ? index != 1 : index == 0;
  if (absl::StartsWith(op, "Global")) return true;
  if (op == "MaxPoolGrad" || op == "AveragePoolGrad") return true;
  if (op == "BatchNorm") return index == 0 || (input && index == 5);
  if (op == "BatchNormGrad") return index == 0 || (input && index == 4);
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
  return std::make_unique<ReorderKernel>(MakeLayoutReorder(from.shape, to.layout),
                                         request.threads());
}

}  // namespace shoal::cpu
