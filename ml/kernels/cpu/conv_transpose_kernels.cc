// ConvTranspose. Its forward pass is the gradient, with respect to the input, of a convolution from
// y to x.

#include <utility>

#include "ml/kernels/cpu/chunked_convolution.h"
#include "ml/kernels/cpu/convolution_primitive.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

class ConvTransposeKernel : public Kernel {
 public:
  ConvTransposeKernel(const CpuRequest& request, std::unique_ptr<ConvolutionPrimitive> product)
      : product_(std::move(product)),
        threads_(request.threads()),
        has_bias_(request.num_inputs() == 3),
        lanes_(request.output(0).layout == Layout::kBlocked16 ? 16 : 1),
        channels_(request.output(0).shape.dim(1)),
        planes_(request.output(0).shape.dim(0) * channels_ / lanes_),
        pixels_(request.output(0).shape.dim(2) * request.output(0).shape.dim(3)) {}

  size_t workspace_bytes() const override { return product_->workspace_bytes(); }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    ConvolutionPrimitive::Buffers buffers;
    buffers.output = FloatInput(context, 0);
    buffers.result = FloatOutput(context, 0);
    product_->PackWeights(FloatInput(context, 1), workspace);
    product_->Run(buffers, workspace);
    if (has_bias_) AddBias(FloatInput(context, 2), buffers.result);
  }

 private:
  void AddBias(const float* bias, float* y) const {
    ParallelFor(threads_, planes_, [&](int64_t begin, int64_t end) {
      for (int64_t plane = begin; plane < end; ++plane) {
        const float* of_plane = bias + plane * lanes_ % channels_;
        float* to = y + plane * pixels_ * lanes_;
        for (int64_t i = 0; i < pixels_; ++i, to += lanes_) {
          for (int64_t lane = 0; lane < lanes_; ++lane) to[lane] += of_plane[lane];
        }
      }
    });
  }

  const std::unique_ptr<ConvolutionPrimitive> product_;
  const int threads_;
  const bool has_bias_;
  const int64_t lanes_, channels_, planes_, pixels_;
};

}  // namespace

KernelOr CreateConvTranspose(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 3, 1); !status.ok()) return status;
  // Describes the convolution from y to x, whose weights [in, out / group, h, w] are as they should
  // be.
  const absl::StatusOr<ConvolutionShape> shape =
      MakeConvolutionShape(request.attributes(), request.output(0).shape, request.input(1).shape);
  if (!shape.ok()) return request.Invalid(shape.status().message());
  const Shape& x = request.input(0).shape;
  if (x != Shape({shape->batch, shape->out_channels, shape->out_size[0], shape->out_size[1]}) ||
      (request.num_inputs() == 3 && request.input(2).shape != Shape({shape->in_channels}))) {
    return request.Invalid("images, weights and bias do not fit");
  }
  ConvolutionOptions options;
  options.product = ConvolutionProduct::kInputGradient;
  options.shape = *shape;
  options.input_layout = request.output(0).layout;
  options.output_layout = request.input(0).layout;
  options.threads = request.threads();
  absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> product =
      CreatePreferredConvolution(options);
  if (!product.ok()) return product.status();
  return std::make_unique<ConvTransposeKernel>(request, *std::move(product));
}

}  // namespace shoal::cpu
