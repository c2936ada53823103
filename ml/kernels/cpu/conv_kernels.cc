// Conv and ConvGrad.

#include <algorithm>
#include <utility>

#include "ml/kernels/cpu/chunked_convolution.h"
#include "ml/kernels/cpu/convolution_primitive.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

using ConvolutionOr = absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>>;

class ConvKernel : public Kernel {
 public:
  ConvKernel(const CpuRequest& request, std::unique_ptr<ConvolutionPrimitive> forward,
             Activation activation)
      : simd_(request.simd),
        threads_(request.threads()),
        forward_(std::move(forward)),
        activation_(activation),
        has_bias_(request.num_inputs() == 3),
        n_(request.output(0).shape.num_elements()) {}

  size_t workspace_bytes() const override { return forward_->workspace_bytes(); }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    ConvolutionPrimitive::Buffers buffers;
    buffers.input = FloatInput(context, 0);
    buffers.bias = has_bias_ ? FloatInput(context, 2) : nullptr;
    buffers.result = FloatOutput(context, 0);
    forward_->PackWeights(FloatInput(context, 1), workspace);
    forward_->Run(buffers, workspace);
    if (activation_ == Activation::kNone || activation_ == Activation::kRelu ||
        activation_ == Activation::kRelu6) {
      return;
    }
    ParallelFor(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.bias_activation(buffers.result + begin, 1, end - begin, end - begin, {nullptr, true},
                            activation_);
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const std::unique_ptr<ConvolutionPrimitive> forward_;
  const Activation activation_;
  const bool has_bias_;
  const int64_t n_;
};

class ConvGradKernel : public Kernel {
 public:
  struct Parts {
    std::unique_ptr<ConvolutionPrimitive> input_gradient, weight_gradient;  // null: not needed
    Activation activation;
    bool has_bias;
    int64_t dz_elements;
  };

  ConvGradKernel(const CpuRequest& request, Parts parts)
      : simd_(request.simd), threads_(request.threads()), p_(std::move(parts)) {}

  size_t workspace_bytes() const override {
    size_t bytes = 0;
    if (p_.input_gradient != nullptr) bytes = p_.input_gradient->workspace_bytes();
    if (p_.weight_gradient != nullptr) {
      bytes = std::max(bytes, p_.weight_gradient->workspace_bytes());
    }
    return DzBytes() + bytes;
  }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    const float* dz = FloatInput(context, 3);
    if (p_.activation != Activation::kNone) {
      dz = ActivationGradient(context, reinterpret_cast<float*>(workspace));
      workspace += DzBytes();
    }
    ConvolutionPrimitive::Buffers buffers;
    buffers.output = dz;
    if (p_.weight_gradient != nullptr) {
      buffers.input = FloatInput(context, 0);
      buffers.result = FloatOutput(context, 1);
      buffers.bias_gradient = p_.has_bias ? FloatOutput(context, 2) : nullptr;
      p_.weight_gradient->Run(buffers, workspace);
    }
    if (p_.input_gradient != nullptr) {
      buffers.result = FloatOutput(context, 0);
      p_.input_gradient->PackWeights(FloatInput(context, 1), workspace);
      p_.input_gradient->Run(buffers, workspace);
    }
  }

 private:
  size_t DzBytes() const {
    return p_.activation == Activation::kNone
               ? 0
               : static_cast<size_t>(AlignedBytes(p_.dz_elements * 4));
  }

  const float* ActivationGradient(const KernelContext& context, float* dz) {
    ParallelFor(threads_, p_.dz_elements, [&](int64_t begin, int64_t end) {
      simd_.activation_gradient(p_.activation, FloatInput(context, 2) + begin,
                                FloatInput(context, 3) + begin, dz + begin, 1, end - begin,
                                nullptr);
    });
    return dz;
  }

  const SimdKernels& simd_;
  const int threads_;
  const Parts p_;
};

}  // namespace

KernelOr CreateConv(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 3, 1); !status.ok()) return status;
  const absl::StatusOr<Activation> activation =
      ActivationFromName(request.attributes().GetString("activation", "none"));
  if (!activation.ok()) return activation.status();
  const absl::StatusOr<ConvolutionShape> shape =
      MakeConvolutionShape(request.attributes(), request.input(0).shape, request.input(1).shape);
  if (!shape.ok()) return request.Invalid(shape.status().message());
  if (request.output(0).shape.num_elements() != shape->OutputElements()) {
    return request.Invalid("the output does not fit");
  }
  if (TakesWinograd(*shape, nullptr, request.input(0), request.output(0))) {
    return CreateWinogradForward(request, *shape, nullptr, *activation);
  }
  ConvolutionOptions options;
  options.shape = *shape;
  options.input_layout = request.input(0).layout;
  options.output_layout = request.output(0).layout;
  options.has_bias = request.num_inputs() == 3;
  options.relu = *activation == Activation::kRelu;
  options.relu6 = *activation == Activation::kRelu6;
  options.threads = request.threads();
  ConvolutionOr forward = CreatePreferredConvolution(options);
  if (!forward.ok()) return forward.status();
  return std::make_unique<ConvKernel>(request, *std::move(forward), *activation);
}

KernelOr CreateConvGrad(const CpuRequest& request) {
  const int outputs = std::clamp(request.num_outputs(), 2, 3);
  if (absl::Status status = request.CheckFloat(4, 4, outputs); !status.ok()) return status;
  const absl::StatusOr<Activation> activation =
      ActivationFromName(request.attributes().GetString("activation", "none"));
  if (!activation.ok()) return activation.status();
  const absl::StatusOr<ConvolutionShape> shape =
      MakeConvolutionShape(request.attributes(), request.input(0).shape, request.input(1).shape);
  if (!shape.ok()) return request.Invalid(shape.status().message());
  if (request.input(3).shape.num_elements() != shape->OutputElements() ||
      (*activation != Activation::kNone && request.input(2) != request.input(3))) {
    return request.Invalid("y and dy do not fit");
  }
  if (TakesWinograd(*shape, nullptr, request.input(0), request.input(3))) {
    return CreateWinogradGrad(request, *shape, nullptr, *activation);
  }
  ConvolutionOptions options;
  options.shape = *shape;
  options.input_layout = request.input(0).layout;
  options.output_layout = request.input(3).layout;
  options.threads = request.threads();
  ConvGradKernel::Parts parts;
  parts.activation = *activation;
  parts.dz_elements = shape->OutputElements();
  parts.has_bias = outputs == 3 && request.needed(2);
  options.allow_winograd = !parts.has_bias;
  if (request.needed(0)) {
    if (request.output(0).layout != options.input_layout) {
      return request.Invalid("want equal layouts of x and dx");
    }
    options.product = ConvolutionProduct::kInputGradient;
    ConvolutionOr gradient = CreatePreferredConvolution(options);
    if (!gradient.ok()) return gradient.status();
    parts.input_gradient = *std::move(gradient);
  }
  if (request.needed(1) || parts.has_bias) {
    if (!request.needed(1))
      return request.Invalid("a bias gradient comes with that of the weights");
    options.product = ConvolutionProduct::kWeightGradient;
    options.has_bias = parts.has_bias;
    ConvolutionOr gradient = CreatePreferredConvolution(options);
    if (!gradient.ok()) return gradient.status();
    parts.weight_gradient = *std::move(gradient);
  }
  return std::make_unique<ConvGradKernel>(request, std::move(parts));
}

}  // namespace shoal::cpu
