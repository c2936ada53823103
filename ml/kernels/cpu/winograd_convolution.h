// Computes 5x5 convolutions with stride 1 by Winograd's algorithm F(2x2, 5x5), alone or together
// with a 2x2 max pool; see simd/winograd_kernels.h. Images are in blocks of 16 channels. The
// relative error is about 6e-7 for y and dx and 1.2e-6 for dw.
#ifndef SHOAL_ML_KERNELS_CPU_WINOGRAD_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_WINOGRAD_CONVOLUTION_H_

#include <cstddef>
#include <cstdint>

#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/kernels/cpu/simd/winograd_kernels.h"

namespace shoal::cpu {

class WinogradConvolution {
 public:
  // Returns whether this class can compute the convolution and is faster than the alternatives. The
  // result depends only on the shape.
  static bool Supports(const ConvolutionShape& shape);
  // Returns whether the pool's windows are the tiles of the algorithm, so that both can be computed
  // together.
  static bool SupportsPool(const ConvolutionShape& shape, const PoolShape& pool);

  WinogradConvolution(const ConvolutionShape& shape, bool is_pooled, bool relu, CpuIsa isa,
                      int threads);

  size_t forward_workspace_bytes() const;
  // Writes y and, with a pool, the index of each window's winner; `bias` may be null, `index` is
  // null without a pool.
  void Forward(const float* x, const float* w, const float* bias, float* y, uint8_t* index,
               void* workspace) const;

  // The results of Backward; those that are null are not computed.
  struct Gradients {
    float* dx;
    float* dw;
    float* dbias;
  };
  size_t backward_workspace_bytes(bool dx_needed, bool dw_needed) const;
  void Backward(const float* x, const float* w, const float* dy, const uint8_t* index,
                const Gradients& gradients, void* workspace) const;

 private:
  struct BackwardBuffers;

  // Returns the number of floats in the 36 matrices of a block of tiles.
  int64_t BlockFloats(int64_t channels) const { return 36 * PointFloats(channels); }
  int64_t PointFloats(int64_t channels) const {
    return TileRange{0, 0, block_tiles_}.PointFloats(channels);
  }
  int64_t WeightFloats() const { return 36 * shape_.in_channels * shape_.out_channels; }
  int64_t BackwardThreadFloats(bool dx_needed, bool dw_needed) const;
  void BackwardImages(int64_t first, int64_t count, const float* x, const float* dy,
                      const uint8_t* index, const BackwardBuffers& buffers) const;

  const WinogradKernels& loops_;
  WinogradShape shape_;
  int64_t batch_;
  int threads_;
  int64_t block_tiles_;
};

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_WINOGRAD_CONVOLUTION_H_
