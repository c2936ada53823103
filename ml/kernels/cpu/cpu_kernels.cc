#include "ml/kernels/cpu/cpu_kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "ml/device/describe_request.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/scratch_outputs.h"
#include "ml/kernels/cpu/widened_inputs.h"

namespace shoal {
namespace {

struct Family {
  absl::string_view op;
  cpu::FamilyCreator create;
};

// Sorted by name.
constexpr Family kFamilies[] = {
    {"Abs", cpu::CreateUnary},
    {"AbsoluteDifference", cpu::CreateElementwiseLoss},
    {"AbsoluteDifferenceGrad", cpu::CreateElementwiseLossGrad},
    {"Add", cpu::CreateBinary},
    {"AddN", cpu::CreateAddN},
    {"AveragePool", cpu::CreateAveragePool},
    {"AveragePoolGrad", cpu::CreateAveragePoolGrad},
    {"BatchNorm", cpu::CreateBatchNorm},
    {"BatchNormGrad", cpu::CreateBatchNormGrad},
    {"BroadcastTo", cpu::CreateBroadcastTo},
    {"Cast", cpu::CreateCast},
    {"Clip", cpu::CreateMath},
    {"ClipGrad", cpu::CreateMathGrad},
    {"Concat", cpu::CreateConcat},
    {"ConcatGrad", cpu::CreateSplit},
    {"Conv", cpu::CreateConv},
    {"ConvBatchNormGrad", cpu::CreateConvBatchNormGrad},
    {"ConvGrad", cpu::CreateConvGrad},
    {"ConvPool", cpu::CreateConvPool},
    {"ConvPoolGrad", cpu::CreateConvPoolGrad},
    {"ConvTranspose", cpu::CreateConvTranspose},
    {"CorrectCount", cpu::CreateCorrectCount},
    {"Dense", cpu::CreateDense},
    {"DenseGrad", cpu::CreateDenseGrad},
    {"Div", cpu::CreateBinary},
    {"Dropout", cpu::CreateDropout},
    {"Elu", cpu::CreateMath},
    {"EluGrad", cpu::CreateMathGrad},
    {"EmbeddingBag", cpu::CreateEmbeddingBag},
    {"EmbeddingBagGrad", cpu::CreateEmbeddingBagGrad},
    {"Equal", cpu::CreateCompare},
    {"Erf", cpu::CreateMath},
    {"Exp", cpu::CreateUnary},
    {"FactorizationMachine", cpu::CreateVectorProducts},
    {"FactorizationMachineGrad", cpu::CreateVectorProductsGrad},
    {"Gather", cpu::CreateGather},
    {"GatherGrad", cpu::CreateGatherGrad},
    {"Gelu", cpu::CreateMath},
    {"GeluGrad", cpu::CreateMathGrad},
    {"GlobalAveragePool", cpu::CreateGlobalAveragePool},
    {"GlobalAveragePoolGrad", cpu::CreateGlobalAveragePoolGrad},
    {"GlobalMaxPool", cpu::CreateGlobalMaxPool},
    {"GlobalMaxPoolGrad", cpu::CreateGlobalMaxPoolGrad},
    {"Greater", cpu::CreateCompare},
    {"Hinge", cpu::CreateElementwiseLoss},
    {"HingeGrad", cpu::CreateElementwiseLossGrad},
    {"Huber", cpu::CreateElementwiseLoss},
    {"HuberGrad", cpu::CreateElementwiseLossGrad},
    {"Identity", cpu::CreateCopy},
    {"L2Loss", cpu::CreateL2Loss},
    {"LayerNorm", cpu::CreateLayerNorm},
    {"LayerNormGrad", cpu::CreateLayerNormGrad},
    {"LeakyRelu", cpu::CreateMath},
    {"LeakyReluGrad", cpu::CreateMathGrad},
    {"Less", cpu::CreateCompare},
    {"LocalResponseNorm", cpu::CreateLocalResponseNorm},
    {"LocalResponseNormGrad", cpu::CreateLocalResponseNormGrad},
    {"Log", cpu::CreateUnary},
    {"LogLoss", cpu::CreateElementwiseLoss},
    {"LogLossGrad", cpu::CreateElementwiseLossGrad},
    {"LogSoftmax", cpu::CreateSoftmax},
    {"LogSoftmaxGrad", cpu::CreateSoftmaxGrad},
    {"MatMul", cpu::CreateMatMul},
    {"MaxPool", cpu::CreateMaxPool},
    {"MaxPoolGrad", cpu::CreateMaxPoolGrad},
    {"Maximum", cpu::CreateBinary},
    {"MeanSquaredError", cpu::CreateMeanSquaredError},
    {"MeanSquaredErrorGrad", cpu::CreateMeanSquaredErrorGrad},
    {"Minimum", cpu::CreateBinary},
    {"Mul", cpu::CreateBinary},
    {"Neg", cpu::CreateUnary},
    {"Pad", cpu::CreatePad},
    {"PairwiseDots", cpu::CreateVectorProducts},
    {"PairwiseDotsGrad", cpu::CreateVectorProductsGrad},
    {"Pow", cpu::CreatePow},
    {"Reciprocal", cpu::CreateUnary},
    {"ReduceMax", cpu::CreateReduceExtreme},
    {"ReduceMean", cpu::CreateReduce},
    {"ReduceMin", cpu::CreateReduceExtreme},
    {"ReduceSum", cpu::CreateReduce},
    {"Relu", cpu::CreateUnary},
    {"ReluGrad", cpu::CreateBinary},
    {"ReorderLayout", cpu::CreateReorderLayout},
    {"Reshape", cpu::CreateCopy},
    {"Scale", cpu::CreateScale},
    {"Sigmoid", cpu::CreateUnary},
    {"SigmoidCrossEntropy", cpu::CreateElementwiseLoss},
    {"SigmoidCrossEntropyGrad", cpu::CreateElementwiseLossGrad},
    {"SigmoidGrad", cpu::CreateBinary},
    {"Silu", cpu::CreateMath},
    {"SiluGrad", cpu::CreateMathGrad},
    {"Slice", cpu::CreateSlice},
    {"Softmax", cpu::CreateSoftmax},
    {"SoftmaxCrossEntropy", cpu::CreateSoftmaxCrossEntropy},
    {"SoftmaxCrossEntropyGrad", cpu::CreateSoftmaxCrossEntropyGrad},
    {"SoftmaxGrad", cpu::CreateSoftmaxGrad},
    {"Softplus", cpu::CreateMath},
    {"SparseSoftmaxCrossEntropy", cpu::CreateSparseSoftmaxCrossEntropy},
    {"SparseSoftmaxCrossEntropyGrad", cpu::CreateSparseSoftmaxCrossEntropyGrad},
    {"Split", cpu::CreateSplit},
    {"Sqrt", cpu::CreateUnary},
    {"Square", cpu::CreateUnary},
    {"SquaredDifference", cpu::CreateBinary},
    {"Statistic", cpu::CreateCopy},
    {"Sub", cpu::CreateBinary},
    {"SumTo", cpu::CreateSumTo},
    {"Tanh", cpu::CreateUnary},
    {"TanhGrad", cpu::CreateBinary},
    {"Transpose", cpu::CreateTranspose},
    {"Where", cpu::CreateWhere},
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CreateCpuKernel(const KernelRequest& request,
                                                        cpu::CpuIsa isa) {
  const std::vector<bool> written = cpu::WrittenOutputs(request);
  for (size_t k = 0; k < request.output_needed.size() && k < written.size(); ++k) {
    if (written[k] == request.output_needed[k]) continue;
    return cpu::CreateWithScratchOutputs(request, written, [isa](const KernelRequest& whole) {
      return CreateCpuKernel(whole, isa);
    });
  }
  if (cpu::HasBfloat16(request)) {
    if (cpu::TakesBfloat16Factors(request.op)) {
      return cpu::CreateWithWidenedInputs(request, isa, [isa](const KernelRequest& widened) {
        return CreateCpuKernel(widened, isa);
      });
    }
    if (request.op != "Cast" && request.op != "ReorderLayout") {
      return absl::UnimplementedError(absl::StrCat("no CPU kernel for ", DescribeRequest(request),
                                                   "; bfloat16 is for operands of products"));
    }
  }
  for (const Family& family : kFamilies) {
    if (family.op != request.op) continue;
    return cpu::CreateAdapted(cpu::CpuRequest{request, cpu::SimdKernelsFor(isa), isa},
                              family.create);
  }
  return absl::NotFoundError(absl::StrCat(
      "no CPU kernel for op ", request.op,
      request.inputs.empty() ? "" : absl::StrCat(" on ", request.inputs[0].ToString())));
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateCpuKernel(const KernelRequest& request) {
  return CreateCpuKernel(request, cpu::DetectCpuIsa());
}

bool CpuKernelSupportsLayout(absl::string_view op, const Attributes& attributes, Port port,
                             int index, Layout layout) {
  if (layout == Layout::kPlain) return true;
  // oneDNN works on blocks of 8 if there is no AVX-512.
  if (cpu::DetectCpuIsa() != cpu::CpuIsa::kAvx512) return false;
  return cpu::TakesBlockedLayout(op, attributes, port, index);
}

std::vector<std::string> CpuKernelOps() {
  std::vector<std::string> ops;
  for (const Family& family : kFamilies) ops.emplace_back(family.op);
  return ops;
}

KernelBackend CpuKernelBackend() {
  KernelBackend backend;
  backend.device_type = "CPU";
  backend.create_kernel = [](const KernelRequest& request) { return CreateCpuKernel(request); };
  backend.supports_layout = CpuKernelSupportsLayout;
  backend.set_threads = cpu::SetOmpThreads;
  backend.fused_ops = {"Dense",     "DenseGrad",        "Conv",
                       "MaxPool",   "ConvPool",         "ConvPoolGrad",
                       "BatchNorm", "EmbeddingBagGrad", "ConvBatchNormGrad"};
  return backend;
}

}  // namespace shoal
