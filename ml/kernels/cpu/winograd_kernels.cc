// Conv, ConvGrad, ConvPool and ConvPoolGrad for the 5x5 convolutions that WinogradConvolution
// supports.

#include <algorithm>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/winograd_convolution.h"

namespace shoal::cpu {
namespace {

// Conv, and with a pool ConvPool.
class WinogradForwardKernel : public Kernel {
 public:
  WinogradForwardKernel(const CpuRequest& request, const WinogradConvolution& convolution,
                        bool is_pooled, Activation activation)
      : simd_(request.simd),
        threads_(request.threads()),
        convolution_(convolution),
        is_pooled_(is_pooled),
        has_bias_(request.num_inputs() == 3),
        activation_(activation),
        n_(request.output(0).shape.num_elements()) {}

  size_t workspace_bytes() const override { return convolution_.forward_workspace_bytes(); }

  void Run(const KernelContext& context) override {
    float* y = FloatOutput(context, 0);
    convolution_.Forward(FloatInput(context, 0), FloatInput(context, 1),
                         has_bias_ ? FloatInput(context, 2) : nullptr, y,
                         is_pooled_ ? static_cast<uint8_t*>(context.outputs[1]) : nullptr,
                         context.workspace);
    if (activation_ == Activation::kNone) return;
    ParallelFor(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.bias_activation(y + begin, 1, end - begin, end - begin, {nullptr, true}, activation_);
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const WinogradConvolution convolution_;
  const bool is_pooled_, has_bias_;
  const Activation activation_;
  const int64_t n_;
};

// ConvGrad (x, w, y, dy), and with a pool ConvPoolGrad (x, w, index, dy).
class WinogradGradKernel : public Kernel {
 public:
  struct Parts {
    bool is_pooled, dx_needed, dw_needed, dbias_needed;
    Activation activation;  // without a pool
    int64_t dy_elements;
  };

  WinogradGradKernel(const CpuRequest& request, const WinogradConvolution& convolution,
                     const Parts& parts)
      : simd_(request.simd), threads_(request.threads()), convolution_(convolution), p_(parts) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(DzBytes()) +
           convolution_.backward_workspace_bytes(p_.dx_needed, p_.dw_needed);
  }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    const float* dy = FloatInput(context, 3);
    if (DzBytes() > 0) {
      float* dz = reinterpret_cast<float*>(workspace);
      ParallelFor(threads_, p_.dy_elements, [&](int64_t begin, int64_t end) {
        simd_.activation_gradient(p_.activation, FloatInput(context, 2) + begin, dy + begin,
                                  dz + begin, 1, end - begin, nullptr);
      });
      dy = dz;
    }
    convolution_.Backward(FloatInput(context, 0), FloatInput(context, 1), dy,
                          p_.is_pooled ? static_cast<const uint8_t*>(context.inputs[2]) : nullptr,
                          {p_.dx_needed ? FloatOutput(context, 0) : nullptr,
                           p_.dw_needed ? FloatOutput(context, 1) : nullptr,
                           p_.dbias_needed ? FloatOutput(context, 2) : nullptr},
                          workspace + DzBytes());
  }

 private:
  int64_t DzBytes() const {
    return p_.is_pooled || p_.activation == Activation::kNone ? 0
                                                              : AlignedBytes(p_.dy_elements * 4);
  }

  const SimdKernels& simd_;
  const int threads_;
  const WinogradConvolution convolution_;
  const Parts p_;
};

bool IsBlocked(const TensorSpec& spec) { return spec.layout == Layout::kBlocked16; }

}  // namespace

bool TakesWinograd(const ConvolutionShape& shape, const PoolShape* pool, const TensorSpec& input,
                   const TensorSpec& output) {
  return IsBlocked(input) && IsBlocked(output) &&
         (pool == nullptr ? WinogradConvolution::Supports(shape)
                          : WinogradConvolution::SupportsPool(shape, *pool));
}

std::unique_ptr<Kernel> CreateWinogradForward(const CpuRequest& request,
                                              const ConvolutionShape& shape, const PoolShape* pool,
                                              Activation activation) {
  const bool relu = request.attributes().GetBool("relu", false);
  const WinogradConvolution convolution(shape, pool != nullptr, relu, request.isa,
                                        request.threads());
  return std::make_unique<WinogradForwardKernel>(request, convolution, pool != nullptr, activation);
}

std::unique_ptr<Kernel> CreateWinogradGrad(const CpuRequest& request, const ConvolutionShape& shape,
                                           const PoolShape* pool, Activation activation) {
  const bool relu = request.attributes().GetBool("relu", false);
  const WinogradConvolution convolution(shape, pool != nullptr, relu, request.isa,
                                        request.threads());
  WinogradGradKernel::Parts parts;
  parts.is_pooled = pool != nullptr;
  parts.dx_needed = request.needed(0);
  parts.dw_needed = request.needed(1);
  parts.dbias_needed = request.num_outputs() == 3 && request.needed(2);
  parts.activation = activation;
  parts.dy_elements = request.input(3).shape.num_elements();
  return std::make_unique<WinogradGradKernel>(request, convolution, parts);
}

}  // namespace shoal::cpu
