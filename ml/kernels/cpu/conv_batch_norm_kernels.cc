// ConvBatchNormGrad computes the gradients of a batch norm and of the convolution in front of it, a
// few images at a time. The gradient between the two stays in the L2 cache; separate kernels would
// write it to memory once and read it twice.

#include <algorithm>
#include <utility>

#include "ml/kernels/cpu/batch_norm_gradient.h"
#include "ml/kernels/cpu/chunked_convolution.h"
#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// Indices of the inputs: x, w, norm's x, scale, mean, inverse deviation, dy and, with an
// activation, offset.
enum Input { kX, kWeights, kMiddle, kScale, kMean, kInvStd, kDy, kOffset };
// Indices of the outputs.
enum Output { kDx, kDw, kDscale, kDoffset };

class ConvBatchNormGradKernel : public Kernel {
 public:
  struct Parts {
    ConvolutionShape shape;
    int64_t chunk_images;
    bool dx_needed, dw_needed, has_activation;
    ChunkedConvolution input_gradient, weight_gradient;
  };

  ConvBatchNormGradKernel(const CpuRequest& request, const BatchNormGradient& norm, Parts parts)
      : simd_(request.simd),
        threads_(request.threads()),
        norm_(norm),
        p_(std::move(parts)),
        in_image_(p_.shape.InputElements() / p_.shape.batch),
        middle_image_(p_.shape.OutputElements() / p_.shape.batch) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(CoefficientBytes() + MiddleBytes() + PartialBytes()) +
           p_.input_gradient.workspace_bytes() + p_.weight_gradient.workspace_bytes();
  }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    auto* coefficients = reinterpret_cast<BatchNormGradient::Coefficients*>(workspace);
    workspace += CoefficientBytes();
    const BatchNormGradient::Buffers buffers = NormBuffers(context);
    ParallelFor(threads_, norm_.view().groups, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) norm_.Sum(buffers, g, &coefficients[g]);
    });
    float* middle = reinterpret_cast<float*>(workspace);
    float* partial = reinterpret_cast<float*>(workspace + MiddleBytes());
    char* data_workspace = workspace + MiddleBytes() + PartialBytes();
    char* weights_workspace = data_workspace + p_.input_gradient.workspace_bytes();
    if (p_.dx_needed) p_.input_gradient.PackWeights(FloatInput(context, kWeights), data_workspace);
    for (int64_t first = 0; first < p_.shape.batch; first += p_.chunk_images) {
      const int64_t images = std::min(p_.chunk_images, p_.shape.batch - first);
      ApplyNorm(buffers, coefficients, first, images, middle);
      ConvolutionPrimitive::Buffers convolution;
      convolution.input = FloatInput(context, kX) + first * in_image_;
      convolution.output = middle;
      if (p_.dw_needed) {
        float* dw = FloatOutput(context, kDw);
        convolution.result = first == 0 ? dw : partial;
        p_.weight_gradient.Run(images, convolution, weights_workspace);
        // The chunks' gradients are added in their order.
        if (first > 0) simd_.accumulate(partial, dw, p_.shape.WeightElements());
      }
      if (p_.dx_needed) {
        convolution.result = FloatOutput(context, kDx) + first * in_image_;
        p_.input_gradient.Run(images, convolution, data_workspace);
      }
    }
  }

 private:
  int64_t CoefficientBytes() const {
    return AlignedBytes(norm_.view().groups *
                        static_cast<int64_t>(sizeof(BatchNormGradient::Coefficients)));
  }
  int64_t MiddleBytes() const { return AlignedBytes(p_.chunk_images * middle_image_ * 4); }
  int64_t PartialBytes() const { return AlignedBytes(p_.shape.WeightElements() * 4); }

  BatchNormGradient::Buffers NormBuffers(const KernelContext& context) const {
    return {
        FloatInput(context, kMiddle),  FloatInput(context, kDy),
        FloatInput(context, kScale),   FloatInput(context, kMean),
        FloatInput(context, kInvStd),  p_.has_activation ? FloatInput(context, kOffset) : nullptr,
        FloatOutput(context, kDscale), FloatOutput(context, kDoffset)};
  }

  void ApplyNorm(const BatchNormGradient::Buffers& buffers,
                 const BatchNormGradient::Coefficients* coefficients, int64_t first, int64_t images,
                 float* middle) const {
    const ChannelView& view = norm_.view();
    ParallelFor(threads_, images * view.groups, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i % view.groups;
        norm_.Apply(buffers, coefficients[group], first + i / view.groups, group,
                    middle + i * view.run);
      }
    });
  }

  const SimdKernels& simd_;
  const int threads_;
  const BatchNormGradient norm_;
  Parts p_;
  const int64_t in_image_, middle_image_;
};

// Returns the number of images in a chunk: as many as make the gradient between norm and
// convolution half a mebibyte for each thread; or all images if the weights are so large that
// summing their gradients over chunks would cost more than it saves.
int64_t ChunkImages(const ConvolutionShape& shape, int threads) {
  const int64_t image = shape.OutputElements() / shape.batch;
  if (shape.WeightElements() > image / 4) return shape.batch;
  const int64_t images = std::max<int64_t>((int64_t{1} << 17) / image, 1);
  return std::min(images * threads, shape.batch);
}

absl::Status CheckSpecs(const CpuRequest& request, const ConvolutionShape& shape) {
  if (shape.batch == 0 || request.input(kMiddle).shape.num_elements() != shape.OutputElements() ||
      request.input(kMiddle) != request.input(kDy)) {
    return request.Invalid("the norm's x and dy do not fit");
  }
  for (int i = 0; i < request.num_inputs(); ++i) {
    const bool is_parameter = (i >= kScale && i <= kInvStd) || i == kOffset;
    if (is_parameter && request.input(i).shape.num_elements() != shape.out_channels) {
      return request.Invalid("want one parameter for each channel");
    }
  }
  if (request.needed(kDx) && request.input(kX) != request.output(kDx))
    return request.Invalid("want x and dx alike");
  const bool has_activation = request.attributes().GetString("activation", "none") != "none";
  if (has_activation != (request.num_inputs() == kOffset + 1)) {
    return request.Invalid("want the offset with an activation, and only then");
  }
  return absl::OkStatus();
}

}  // namespace

KernelOr CreateConvBatchNormGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(7, 8, 4); !status.ok()) return status;
  const absl::StatusOr<ConvolutionShape> shape = MakeConvolutionShape(
      request.attributes(), request.input(kX).shape, request.input(kWeights).shape);
  if (!shape.ok()) return request.Invalid(shape.status().message());
  if (absl::Status status = CheckSpecs(request, *shape); !status.ok()) return status;
  const absl::StatusOr<Bounds> bounds = ComputeBounds(request);
  if (!bounds.ok()) return bounds.status();
  ConvBatchNormGradKernel::Parts parts{};
  parts.shape = *shape;
  parts.chunk_images = ChunkImages(*shape, request.threads());
  parts.has_activation = request.num_inputs() == kOffset + 1;
  ConvolutionOptions options;
  options.shape = *shape;
  options.input_layout = request.input(kX).layout;
  options.output_layout = request.input(kMiddle).layout;
  options.allow_winograd = true;
  options.threads = request.threads();
  parts.dx_needed = request.needed(kDx);
  if (parts.dx_needed) {
    options.product = ConvolutionProduct::kInputGradient;
    absl::StatusOr<ChunkedConvolution> gradient =
        ChunkedConvolution::Create(options, parts.chunk_images);
    if (!gradient.ok()) return gradient.status();
    parts.input_gradient = *std::move(gradient);
  }
  parts.dw_needed = request.needed(kDw);
  if (parts.dw_needed) {
    options.product = ConvolutionProduct::kWeightGradient;
    absl::StatusOr<ChunkedConvolution> gradient =
        ChunkedConvolution::Create(options, parts.chunk_images);
    if (!gradient.ok()) return gradient.status();
    parts.weight_gradient = *std::move(gradient);
  }
  const BatchNormGradient norm(request, request.input(kMiddle), *bounds);
  return std::make_unique<ConvBatchNormGradKernel>(request, norm, std::move(parts));
}

}  // namespace shoal::cpu
