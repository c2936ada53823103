#include "ml/kernels/cpu/winograd_convolution.h"

#include <algorithm>

#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// Returns the number of tiles in a block. Their matrices have about 320 KiB, so that they and the
// weights stay in the L2 cache. The number is a multiple of 12, because the product keeps 12 rows
// in registers.
int64_t BlockTiles(const WinogradShape& shape) {
  const int64_t bytes = 36 * 4 * (shape.in_channels + shape.out_channels);
  return std::clamp<int64_t>((int64_t{340} << 10) / bytes / 12 * 12, 12, 96);
}

}  // namespace

struct WinogradConvolution::BackwardBuffers {
  const float* weights;  // transformed, [36][out][in]; null: dx is not needed
  float* dx;
  float *v, *e, *d, *du, *dbias;  // buffers of one thread; du and dbias are null if not needed
};

bool WinogradConvolution::Supports(const ConvolutionShape& shape) {
  const WindowShape& w = shape.window;
  for (int a = 0; a < 2; ++a) {
    if (w.kernel[a] != 5 || w.stride[a] != 1 || w.dilation[a] != 1 || w.pad_before[a] > 4 ||
        w.pad_after[a] > 4) {
      return false;
    }
  }
  return shape.group == 1 && shape.in_channels % 16 == 0 && shape.out_channels % 16 == 0 &&
         shape.out_size[0] >= 4 && shape.out_size[1] >= 4;
}

bool WinogradConvolution::SupportsPool(const ConvolutionShape& shape, const PoolShape& pool) {
  bool is_tile = true;
  for (int a = 0; a < 2; ++a) {
    is_tile = is_tile && pool.window.kernel[a] == 2 && pool.window.stride[a] == 2 &&
              pool.window.pad_before[a] == 0 && shape.out_size[a] % 2 == 0;
  }
  return is_tile && Supports(shape);
}

WinogradConvolution::WinogradConvolution(const ConvolutionShape& shape, bool is_pooled, bool relu,
                                         CpuIsa isa, int threads)
    : loops_(WinogradKernelsFor(isa)), batch_(shape.batch), threads_(std::max(threads, 1)) {
  shape_.in_channels = shape.in_channels;
  shape_.out_channels = shape.out_channels;
  for (int a = 0; a < 2; ++a) {
    shape_.in[a] = shape.in_size[a];
    shape_.out[a] = shape.out_size[a];
    shape_.pad[a] = shape.window.pad_before[a];
    shape_.tiles[a] = (shape.out_size[a] + 1) / 2;
  }
  shape_.is_pooled = is_pooled;
  shape_.relu = relu;
  block_tiles_ = BlockTiles(shape_);
}

size_t WinogradConvolution::forward_workspace_bytes() const {
  const int64_t block = BlockFloats(shape_.in_channels) + BlockFloats(shape_.out_channels);
  return static_cast<size_t>(4 * (2 * WeightFloats() + threads_ * block));
}

void WinogradConvolution::Forward(const float* x, const float* w, const float* bias, float* y,
                                  uint8_t* index, void* workspace) const {
  const int64_t in = shape_.in_channels, out = shape_.out_channels;
  float* weights = static_cast<float*>(workspace);
  float* buffers = weights + 2 * WeightFloats();
  loops_.transform_weights(shape_, false, w, weights, weights + WeightFloats());
  const int64_t tiles = batch_ * shape_.tiles_of_image();
  const int64_t blocks = (tiles + block_tiles_ - 1) / block_tiles_;
  ParallelFor(threads_, threads_, [&](int64_t thread, int64_t thread_end) {
    for (; thread < thread_end; ++thread) {
      float* v = buffers + thread * (BlockFloats(in) + BlockFloats(out));
      float* m = v + BlockFloats(in);
      for (int64_t b = blocks * thread / threads_; b < blocks * (thread + 1) / threads_; ++b) {
        const int64_t first = b * block_tiles_;
        const TileRange range{first, std::min(block_tiles_, tiles - first), block_tiles_};
        const int64_t rows = (range.count + 3) / 4 * 4;
        loops_.transform_input(shape_, range, x, v);
        for (int64_t p = 0; p < kWinogradPoints; ++p) {
          loops_.multiply(false, rows, out, in, v + p * PointFloats(in), in, weights + p * in * out,
                          m + p * PointFloats(out), false);
        }
        loops_.transform_output(shape_, range, m, bias, y, index);
      }
    }
  });
}

int64_t WinogradConvolution::BackwardThreadFloats(bool dx_needed, bool dw_needed) const {
  int64_t floats = BlockFloats(shape_.out_channels) + shape_.out_channels;
  if (dx_needed) floats += BlockFloats(shape_.in_channels);
  if (dw_needed) floats += BlockFloats(shape_.in_channels) + WeightFloats();
  return floats;
}

size_t WinogradConvolution::backward_workspace_bytes(bool dx_needed, bool dw_needed) const {
  return static_cast<size_t>(
      4 * (2 * WeightFloats() + threads_ * BackwardThreadFloats(dx_needed, dw_needed)));
}

void WinogradConvolution::BackwardImages(int64_t first, int64_t count, const float* x,
                                         const float* dy, const uint8_t* index,
                                         const BackwardBuffers& b) const {
  const int64_t in = shape_.in_channels, out = shape_.out_channels;
  const int64_t image = in * shape_.in[0] * shape_.in[1];
  if (b.dx != nullptr) std::fill_n(b.dx + first * image, count * image, 0.0f);
  const int64_t end = (first + count) * shape_.tiles_of_image();
  for (int64_t tile = first * shape_.tiles_of_image(); tile < end; tile += block_tiles_) {
    const TileRange range{tile, std::min(block_tiles_, end - tile), block_tiles_};
    const int64_t rows = (range.count + 3) / 4 * 4;
    loops_.transform_gradient(shape_, range, dy, index, b.e, b.dbias);
    if (b.du != nullptr) {
      loops_.transform_input(shape_, range, x, b.v);
      for (int64_t p = 0; p < kWinogradPoints; ++p) {
        loops_.multiply(true, in, out, range.count, b.v + p * PointFloats(in), in,
                        b.e + p * PointFloats(out), b.du + p * in * out, true);
      }
    }
    if (b.dx == nullptr) continue;
    for (int64_t p = 0; p < kWinogradPoints; ++p) {
      loops_.multiply(false, rows, in, out, b.e + p * PointFloats(out), out,
                      b.weights + p * in * out, b.d + p * PointFloats(in), false);
    }
    loops_.add_input_gradient(shape_, range, b.d, b.dx);
  }
}

void WinogradConvolution::Backward(const float* x, const float* w, const float* dy,
                                   const uint8_t* index, const Gradients& gradients,
                                   void* workspace) const {
  const int64_t in = shape_.in_channels, out = shape_.out_channels;
  const bool dx_needed = gradients.dx != nullptr, dw_needed = gradients.dw != nullptr;
  float* weights = static_cast<float*>(workspace);
  float* scratch = weights + WeightFloats();
  float* first_thread = scratch + WeightFloats();
  const int64_t stride = BackwardThreadFloats(dx_needed, dw_needed);
  if (dx_needed) loops_.transform_weights(shape_, true, w, weights, scratch);
  const auto buffers_of = [&](int64_t thread) {
    BackwardBuffers b{weights, gradients.dx, nullptr, nullptr, nullptr, nullptr, nullptr};
    float* next = first_thread + thread * stride;
    const auto take = [&next](int64_t floats) {
      float* taken = next;
      next += floats;
      return taken;
    };
    b.e = take(BlockFloats(out));
    b.dbias = take(out);
    if (dx_needed) b.d = take(BlockFloats(in));
    if (dw_needed) b.v = take(BlockFloats(in));
    if (dw_needed) b.du = take(WeightFloats());
    return b;
  };
  ParallelFor(threads_, threads_, [&](int64_t thread, int64_t thread_end) {
    for (; thread < thread_end; ++thread) {
      const BackwardBuffers b = buffers_of(thread);
      std::fill_n(b.dbias, out, 0.0f);
      if (dw_needed) std::fill_n(b.du, WeightFloats(), 0.0f);
      const int64_t first = batch_ * thread / threads_;
      BackwardImages(first, batch_ * (thread + 1) / threads_ - first, x, dy, index, b);
    }
  });
  // The threads' sums are added in their order.
  const BackwardBuffers total = buffers_of(0);
  for (int64_t thread = 1; thread < threads_; ++thread) {
    const BackwardBuffers b = buffers_of(thread);
    for (int64_t i = 0; i < out; ++i) total.dbias[i] += b.dbias[i];
    for (int64_t i = 0; dw_needed && i < WeightFloats(); ++i) total.du[i] += b.du[i];
  }
  if (gradients.dbias != nullptr) std::copy_n(total.dbias, out, gradients.dbias);
  if (dw_needed) loops_.transform_weight_gradient(shape_, total.du, gradients.dw, scratch);
}

}  // namespace shoal::cpu
