// ConvPool and ConvPoolGrad compute convolution, bias, max pooling and ReLU together, a few images
// at a time, so that the output of the convolution stays in the L2 cache.

#include <algorithm>
#include <utility>

#include "ml/kernels/cpu/chunked_convolution.h"
#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/pool_kernels.h"

namespace shoal::cpu {
namespace {

struct Sizes {
  ConvolutionShape convolution;
  PoolShape pool;
  bool relu;
  int64_t chunk_images;
  int64_t channel_block;                      // channels of a plane of the pool: 16 or 1
  int64_t in_image, middle_image, out_image;  // floats of one image

  int64_t chunks() const { return (convolution.batch + chunk_images - 1) / chunk_images; }
  int64_t images(int64_t chunk) const {
    return std::min(chunk_images, convolution.batch - chunk * chunk_images);
  }
};

// Does the pooling for `images` images; the threads share the planes.
struct Pool {
  const PoolKernels* loops;
  PoolPlane plane;
  int64_t planes_of_image, in_plane, out_plane;
  bool relu;
  int threads;

  void Forward(int64_t images, const float* x, float* y, uint8_t* index) const {
    ParallelFor(threads, images * planes_of_image, [&](int64_t begin, int64_t end) {
      loops->max_pool(plane, relu, x + begin * in_plane, y + begin * out_plane,
                      index + begin * out_plane, end - begin);
    });
  }

  void Backward(int64_t images, const uint8_t* index, const float* dy, float* dx) const {
    ParallelFor(threads, images * planes_of_image, [&](int64_t begin, int64_t end) {
      loops->max_pool_gradient(plane, index + begin * out_plane, dy + begin * out_plane,
                               dx + begin * in_plane, end - begin);
    });
  }
};

class ConvPoolKernel : public Kernel {
 public:
  ConvPoolKernel(const Sizes& sizes, const Pool& pool, ChunkedConvolution forward, bool has_bias)
      : s_(sizes), pool_(pool), forward_(std::move(forward)), has_bias_(has_bias) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(MiddleBytes()) + forward_.workspace_bytes();
  }

  void Run(const KernelContext& context) override {
    float* middle = static_cast<float*>(context.workspace);
    char* workspace = static_cast<char*>(context.workspace) + MiddleBytes();
    forward_.PackWeights(FloatInput(context, 1), workspace);
    for (int64_t i = 0; i < s_.chunks(); ++i) {
      const int64_t image = i * s_.chunk_images;
      ConvolutionPrimitive::Buffers buffers;
      buffers.input = FloatInput(context, 0) + image * s_.in_image;
      buffers.bias = has_bias_ ? FloatInput(context, 2) : nullptr;
      buffers.result = middle;
      forward_.Run(s_.images(i), buffers, workspace);
      pool_.Forward(s_.images(i), middle, FloatOutput(context, 0) + image * s_.out_image,
                    static_cast<uint8_t*>(context.outputs[1]) + image * s_.out_image);
    }
  }

 private:
  int64_t MiddleBytes() const { return AlignedBytes(s_.chunk_images * s_.middle_image * 4); }

  const Sizes s_;
  const Pool pool_;
  ChunkedConvolution forward_;
  const bool has_bias_;
};

class ConvPoolGradKernel : public Kernel {
 public:
  struct Parts {
    bool dx_needed, dw_needed, dbias_needed;
    ChunkedConvolution input_gradient, weight_gradient;
  };

  ConvPoolGradKernel(const CpuRequest& request, const Sizes& sizes, const Pool& pool, Parts parts)
      : simd_(request.simd), s_(sizes), pool_(pool), p_(std::move(parts)) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(MiddleBytes() + PartialBytes()) +
           p_.input_gradient.workspace_bytes() + p_.weight_gradient.workspace_bytes();
  }

  void Run(const KernelContext& context) override {
    char* workspace = static_cast<char*>(context.workspace);
    float* middle = reinterpret_cast<float*>(workspace);
    float* partial = reinterpret_cast<float*>(workspace + MiddleBytes());
    char* data_workspace = workspace + MiddleBytes() + PartialBytes();
    char* weights_workspace = data_workspace + p_.input_gradient.workspace_bytes();
    if (p_.dx_needed) p_.input_gradient.PackWeights(FloatInput(context, 1), data_workspace);
    for (int64_t i = 0; i < s_.chunks(); ++i) {
      const int64_t image = i * s_.chunk_images;
      pool_.Backward(s_.images(i),
                     static_cast<const uint8_t*>(context.inputs[2]) + image * s_.out_image,
                     FloatInput(context, 3) + image * s_.out_image, middle);
      ConvolutionPrimitive::Buffers buffers;
      buffers.input = FloatInput(context, 0) + image * s_.in_image;
      buffers.output = middle;
      if (p_.dw_needed) AddWeightGradient(context, i, buffers, partial, weights_workspace);
      if (p_.dx_needed) {
        buffers.result = FloatOutput(context, 0) + image * s_.in_image;
        p_.input_gradient.Run(s_.images(i), buffers, data_workspace);
      }
    }
  }

 private:
  int64_t MiddleBytes() const { return AlignedBytes(s_.chunk_images * s_.middle_image * 4); }
  int64_t PartialBytes() const {
    return AlignedBytes((s_.convolution.WeightElements() + s_.convolution.out_channels) * 4);
  }

  // The chunks' gradients are added in their order.
  void AddWeightGradient(const KernelContext& context, int64_t chunk,
                         ConvolutionPrimitive::Buffers buffers, float* partial, char* workspace) {
    float* dw = FloatOutput(context, 1);
    float* dbias = p_.dbias_needed ? FloatOutput(context, 2) : nullptr;
    const int64_t weights = s_.convolution.WeightElements();
    buffers.result = chunk == 0 ? dw : partial;
    buffers.bias_gradient = chunk == 0 || dbias == nullptr ? dbias : partial + weights;
    p_.weight_gradient.Run(s_.images(chunk), buffers, workspace);
    if (chunk == 0) return;
    simd_.accumulate(partial, dw, weights);
    if (dbias != nullptr) simd_.accumulate(partial + weights, dbias, s_.convolution.out_channels);
  }

  const SimdKernels& simd_;
  const Sizes s_;
  const Pool pool_;
  Parts p_;
};

// Returns the number of images in a chunk: as many as make the output of the convolution half a
// mebibyte; or all images if the weights are so large that summing their gradients over chunks
// would cost more than it saves.
int64_t ChunkImages(const ConvolutionShape& shape, int64_t middle_image) {
  if (shape.WeightElements() > 4 * middle_image) return shape.batch;
  return std::clamp<int64_t>((int64_t{1} << 17) / middle_image, 1, shape.batch);
}

absl::StatusOr<Sizes> MakeSizes(const CpuRequest& request, const TensorSpec& images,
                                const TensorSpec& pooled) {
  Sizes s{};
  const absl::StatusOr<ConvolutionShape> convolution =
      MakeConvolutionShape(request.attributes(), images.shape, request.input(1).shape);
  if (!convolution.ok()) return request.Invalid(convolution.status().message());
  s.convolution = *convolution;
  const Shape middle({convolution->batch, convolution->out_channels, convolution->out_size[0],
                      convolution->out_size[1]});
  const absl::StatusOr<PoolShape> pool = MakePoolShape(request.attributes(), middle, true);
  if (!pool.ok()) return request.Invalid(pool.status().message());
  s.pool = *pool;
  if (pooled.shape != Shape({pool->batch, pool->channels, pool->out_size[0], pool->out_size[1]}) ||
      pool->window.kernel[0] * pool->window.kernel[1] >= kNoWinner) {
    return request.Invalid("the pooled images do not fit");
  }
  s.relu = request.attributes().GetBool("relu", false);
  s.channel_block = pooled.layout == Layout::kBlocked16 ? 16 : 1;
  s.in_image = convolution->InputElements() / std::max<int64_t>(convolution->batch, 1);
  s.middle_image = pool->channels * pool->InputPixels();
  s.out_image = pool->channels * pool->OutputPixels();
  s.chunk_images = ChunkImages(*convolution, s.middle_image);
  return s;
}

Pool MakePool(const CpuRequest& request, const Sizes& s) {
  Pool pool;
  pool.loops = s.channel_block == 16 ? &PoolKernelsFor(request.isa) : &PlainPoolKernels();
  pool.plane = PlaneOf(s.pool);
  pool.planes_of_image = s.pool.channels / s.channel_block;
  pool.in_plane = s.pool.InputPixels() * s.channel_block;
  pool.out_plane = s.pool.OutputPixels() * s.channel_block;
  pool.relu = s.relu;
  pool.threads = request.threads();
  return pool;
}

ConvolutionOptions MakeOptions(const CpuRequest& request, const Sizes& s, Layout input,
                               Layout output) {
  ConvolutionOptions options;
  options.shape = s.convolution;
  options.input_layout = input;
  options.output_layout = output;
  options.threads = request.threads();
  return options;
}

}  // namespace

KernelOr CreateConvPool(const CpuRequest& request) {
  if (request.num_inputs() < 2 || request.num_inputs() > 3 || request.num_outputs() != 2 ||
      request.output(1).dtype != DataType::kUint8 || request.input(0).dtype != DataType::kFloat32) {
    return request.Invalid("want x, w, bias -> y, index (uint8)");
  }
  const absl::StatusOr<Sizes> sizes = MakeSizes(request, request.input(0), request.output(0));
  if (!sizes.ok()) return sizes.status();
  if (TakesWinograd(sizes->convolution, &sizes->pool, request.input(0), request.output(0))) {
    return CreateWinogradForward(request, sizes->convolution, &sizes->pool, Activation::kNone);
  }
  ConvolutionOptions options =
      MakeOptions(request, *sizes, request.input(0).layout, request.output(0).layout);
  options.has_bias = request.num_inputs() == 3;
  absl::StatusOr<ChunkedConvolution> forward =
      ChunkedConvolution::Create(options, sizes->chunk_images);
  if (!forward.ok()) return forward.status();
  return std::make_unique<ConvPoolKernel>(*sizes, MakePool(request, *sizes), *std::move(forward),
                                          options.has_bias);
}

KernelOr CreateConvPoolGrad(const CpuRequest& request) {
  if (request.num_inputs() != 4 || request.num_outputs() < 2 || request.num_outputs() > 3 ||
      request.input(2).dtype != DataType::kUint8 ||
      request.input(2).shape != request.input(3).shape ||
      request.input(0).dtype != DataType::kFloat32) {
    return request.Invalid("want x, w, index (uint8), dy -> dx, dw, dbias");
  }
  const absl::StatusOr<Sizes> sizes = MakeSizes(request, request.input(0), request.input(3));
  if (!sizes.ok()) return sizes.status();
  if (TakesWinograd(sizes->convolution, &sizes->pool, request.input(0), request.input(3))) {
    return CreateWinogradGrad(request, sizes->convolution, &sizes->pool, Activation::kNone);
  }
  ConvolutionOptions options =
      MakeOptions(request, *sizes, request.input(0).layout, request.input(3).layout);
  ConvPoolGradKernel::Parts parts{};
  parts.dx_needed = request.needed(0);
  parts.dbias_needed = request.num_outputs() == 3 && request.needed(2);
  parts.dw_needed = request.needed(1);
  if (parts.dbias_needed && !parts.dw_needed) {
    return request.Invalid("a bias gradient comes with that of the weights");
  }
  if (parts.dx_needed) {
    options.product = ConvolutionProduct::kInputGradient;
    absl::StatusOr<ChunkedConvolution> gradient =
        ChunkedConvolution::Create(options, sizes->chunk_images);
    if (!gradient.ok()) return gradient.status();
    parts.input_gradient = *std::move(gradient);
  }
  if (parts.dw_needed) {
    options.product = ConvolutionProduct::kWeightGradient;
    options.has_bias = parts.dbias_needed;
    absl::StatusOr<ChunkedConvolution> gradient =
        ChunkedConvolution::Create(options, sizes->chunk_images);
    if (!gradient.ok()) return gradient.status();
    parts.weight_gradient = *std::move(gradient);
  }
  return std::make_unique<ConvPoolGradKernel>(request, *sizes, MakePool(request, *sizes),
                                              std::move(parts));
}

}  // namespace shoal::cpu
