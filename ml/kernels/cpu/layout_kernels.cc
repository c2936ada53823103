// ReorderLayout, the list of ops that support blocks of 16 channels, and kernels whose inputs have
// different layouts.

#include <algorithm>

#include "absl/strings/match.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/layout_reorder.h"

namespace shoal::cpu {
namespace {

template <typename T>
class ReorderKernel : public Kernel {
 public:
  ReorderKernel(const LayoutReorder& reorder, int threads) : reorder_(reorder), threads_(threads) {}

  void Run(const KernelContext& context) override {
    reorder_.Run(threads_, static_cast<const T*>(context.inputs[0]),
                 static_cast<T*>(context.outputs[0]));
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
  // ReorderLayout reads no other types.
  if (op == "Cast") {
    const auto to = static_cast<DataType>(attributes.GetInt("to", 0));
    return to == DataType::kFloat32 || to == DataType::kBfloat16;
  }
  return std::find(std::begin(kElementwise), std::end(kElementwise), op) != std::end(kElementwise);
}

KernelOr CreateReorderLayout(const CpuRequest& request) {
  const bool is_bfloat16 = request.num_inputs() == 1 && request.num_outputs() == 1 &&
                           request.input(0).dtype == DataType::kBfloat16 &&
                           request.output(0).dtype == DataType::kBfloat16;
  if (absl::Status status = request.CheckFloat(1, 1, 1); !is_bfloat16 && !status.ok()) {
    return status;
  }
  const TensorSpec& from = request.input(0);
  const TensorSpec& to = request.output(0);
  if (from.shape != to.shape) return request.Invalid("want equal shapes");
  if (from.layout == to.layout && !is_bfloat16) return CreateCopy(request);
  if (from.layout == to.layout) return request.Invalid("want two layouts");
  if (from.shape.rank() != 4 || from.shape.dim(1) % 16 != 0) {
    return request.Invalid("want images with a multiple of 16 channels");
  }
  const LayoutReorder reorder = MakeLayoutReorder(from.shape, to.layout);
  if (is_bfloat16) return std::make_unique<ReorderKernel<uint16_t>>(reorder, request.threads());
  return std::make_unique<ReorderKernel<float>>(reorder, request.threads());
}

}  // namespace shoal::cpu
