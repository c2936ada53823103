// Helpers that the files of CPU kernels share: the function that each family of ops defines for
// cpu_kernels.cc, and the checks of a request. Private to this folder.
#ifndef SHOAL_ML_KERNELS_CPU_KERNEL_FAMILIES_H_
#define SHOAL_ML_KERNELS_CPU_KERNEL_FAMILIES_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/device/kernel.h"
#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/kernels/cpu/simd/pool_kernels.h"
#include "ml/kernels/cpu/simd/simd_kernels.h"
#include "ml/tensor/buffer.h"

namespace shoal::cpu {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// A request together with the loops and the instruction set to use.
struct CpuRequest {
  const KernelRequest& request;
  const SimdKernels& simd;
  CpuIsa isa;

  const TensorSpec& input(int i) const { return request.inputs[i]; }
  const TensorSpec& output(int i) const { return request.outputs[i]; }
  int num_inputs() const { return static_cast<int>(request.inputs.size()); }
  int num_outputs() const { return static_cast<int>(request.outputs.size()); }
  const Attributes& attributes() const { return *request.attributes; }
  int threads() const { return request.threads; }
  // Returns whether all inputs and outputs have the same layout.
  bool HasOneLayout() const;
  // Returns whether the graph needs this output.
  bool needed(int i) const;
  // Returns an InvalidArgument error with the op, its shapes and the reason.
  absl::Status Invalid(absl::string_view reason) const;
  // Returns an Unimplemented error with the op and its types.
  absl::Status NoKernel() const;
  // Checks the numbers of inputs and outputs, and that all are float32.
  absl::Status CheckFloat(int min_inputs, int max_inputs, int num_outputs) const;
};

// Returns NotFound for "" and for unknown names.
absl::StatusOr<Activation> ActivationFromName(absl::string_view name);

using FamilyCreator = KernelOr (*)(const CpuRequest& request);

// Make the kernels of one family each. The table in cpu_kernels.cc lists the ops of each family.
KernelOr CreateMatMul(const CpuRequest& request);
KernelOr CreateDense(const CpuRequest& request);
KernelOr CreateDenseGrad(const CpuRequest& request);
KernelOr CreateUnary(const CpuRequest& request);
KernelOr CreateBinary(const CpuRequest& request);
KernelOr CreateMath(const CpuRequest& request);
KernelOr CreateMathGrad(const CpuRequest& request);
KernelOr CreatePow(const CpuRequest& request);
KernelOr CreateAddN(const CpuRequest& request);
KernelOr CreateScale(const CpuRequest& request);
KernelOr CreateCopy(const CpuRequest& request);
KernelOr CreateSumTo(const CpuRequest& request);
KernelOr CreateReduce(const CpuRequest& request);
KernelOr CreateBroadcastTo(const CpuRequest& request);
KernelOr CreateL2Loss(const CpuRequest& request);
KernelOr CreateMeanSquaredError(const CpuRequest& request);
KernelOr CreateMeanSquaredErrorGrad(const CpuRequest& request);
KernelOr CreateElementwiseLoss(const CpuRequest& request);
KernelOr CreateElementwiseLossGrad(const CpuRequest& request);
KernelOr CreateSoftmax(const CpuRequest& request);
KernelOr CreateSoftmaxGrad(const CpuRequest& request);
KernelOr CreateSparseSoftmaxCrossEntropy(const CpuRequest& request);
KernelOr CreateSparseSoftmaxCrossEntropyGrad(const CpuRequest& request);
KernelOr CreateSoftmaxCrossEntropy(const CpuRequest& request);
KernelOr CreateSoftmaxCrossEntropyGrad(const CpuRequest& request);
KernelOr CreateCorrectCount(const CpuRequest& request);
KernelOr CreateConv(const CpuRequest& request);
KernelOr CreateConvGrad(const CpuRequest& request);
KernelOr CreateMaxPool(const CpuRequest& request);
KernelOr CreateMaxPoolGrad(const CpuRequest& request);
KernelOr CreateAveragePool(const CpuRequest& request);
KernelOr CreateAveragePoolGrad(const CpuRequest& request);
KernelOr CreateGlobalAveragePool(const CpuRequest& request);
KernelOr CreateGlobalAveragePoolGrad(const CpuRequest& request);
KernelOr CreateGlobalMaxPool(const CpuRequest& request);
KernelOr CreateGlobalMaxPoolGrad(const CpuRequest& request);
KernelOr CreateConvPool(const CpuRequest& request);
KernelOr CreateConvPoolGrad(const CpuRequest& request);
KernelOr CreateReorderLayout(const CpuRequest& request);
KernelOr CreateBatchNorm(const CpuRequest& request);
KernelOr CreateBatchNormGrad(const CpuRequest& request);
KernelOr CreateConvBatchNormGrad(const CpuRequest& request);
KernelOr CreateConvTranspose(const CpuRequest& request);
KernelOr CreateLayerNorm(const CpuRequest& request);
KernelOr CreateLayerNormGrad(const CpuRequest& request);
KernelOr CreateLocalResponseNorm(const CpuRequest& request);
KernelOr CreateLocalResponseNormGrad(const CpuRequest& request);
KernelOr CreateTranspose(const CpuRequest& request);
KernelOr CreateConcat(const CpuRequest& request);
KernelOr CreateSplit(const CpuRequest& request);
KernelOr CreateCompare(const CpuRequest& request);
KernelOr CreateWhere(const CpuRequest& request);
KernelOr CreateSlice(const CpuRequest& request);
KernelOr CreatePad(const CpuRequest& request);
KernelOr CreateGather(const CpuRequest& request);
KernelOr CreateGatherGrad(const CpuRequest& request);
KernelOr CreateEmbeddingBag(const CpuRequest& request);
KernelOr CreateEmbeddingBagGrad(const CpuRequest& request);
KernelOr CreateVectorProducts(const CpuRequest& request);
KernelOr CreateVectorProductsGrad(const CpuRequest& request);
KernelOr CreateReduceExtreme(const CpuRequest& request);
KernelOr CreateDropout(const CpuRequest& request);
KernelOr CreateCast(const CpuRequest& request);

// Calls `create`. If the first output is in blocks of 16 channels and an input is an image that the
// layout pass left plain (a feed), the kernel is wrapped: the wrapper converts the input.
KernelOr CreateAdapted(const CpuRequest& request, FamilyCreator create);

// Returns whether this input or output of the op may be in blocks of 16 channels; see
// CpuKernelSupportsLayout.
bool TakesBlockedLayout(absl::string_view op, const Attributes& attributes, Port port, int index);

// Kernels that use WinogradConvolution, for the shapes for which TakesWinograd returns true.
// They compute Conv and ConvGrad if `pool` is null, otherwise ConvPool and ConvPoolGrad. `input` is
// the spec of x, `output` that of y.
bool TakesWinograd(const ConvolutionShape& shape, const PoolShape* pool, const TensorSpec& input,
                   const TensorSpec& output);
std::unique_ptr<Kernel> CreateWinogradForward(const CpuRequest& request,
                                              const ConvolutionShape& shape, const PoolShape* pool,
                                              Activation activation);
std::unique_ptr<Kernel> CreateWinogradGrad(const CpuRequest& request, const ConvolutionShape& shape,
                                           const PoolShape* pool, Activation activation);

// Returns the sizes of one plane of a pool.
PoolPlane PlaneOf(const PoolShape& shape);

inline const float* FloatInput(const KernelContext& context, int i) {
  return static_cast<const float*>(context.inputs[i]);
}
inline float* FloatOutput(const KernelContext& context, int i) {
  return static_cast<float*>(context.outputs[i]);
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_KERNEL_FAMILIES_H_
