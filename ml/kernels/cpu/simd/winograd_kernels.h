// The loops of Winograd's convolution F(2x2, 5x5) on images in blocks of 16 channels, compiled once
// per instruction set as simd_kernels.h. (A. Lavin, S. Gray, "Fast Algorithms for Convolutional
// Neural Networks", 2015.)
//
// The output is cut into tiles of 2x2, each made from 6x6 inputs: with the points 0, +-2/3, +-3/2
// and infinity, which give half the error of 0, +-1, +-2,
//   y = A^T [ (G w G^T) * (B^T x B) ] A
// where * is elementwise: 36 multiplications instead of 100. The sum over channels makes each of
// the 36 a matrix product. The gradients are the adjoint maps:
//   dw = G^T [ sum over tiles of (B^T x B) * (A dy A^T) ] G,    dx = B [ (G w G^T) * (A dy A^T) ]
//   B^T.
// Arrays of 36 matrices are [36][rows][columns]; channels are columns, multiples of 16.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_WINOGRAD_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_WINOGRAD_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

inline constexpr int64_t kWinogradPoints = 36;

// Sizes of the convolution (5x5, stride 1); index 0 is the height, 1 the width.
struct WinogradShape {
  int64_t in_channels, out_channels;
  int64_t in[2], out[2], pad[2];
  int64_t tiles[2];  // tiles of one image: out / 2, rounded up
  // The output tile is also the window of a 2x2 pool: y and index are [out / 2], and `out` is even.
  bool is_pooled;
  bool relu;  // of the pool

  int64_t tiles_of_image() const { return tiles[0] * tiles[1]; }
};

// Consecutive tiles of the batch: image by image, row by row. Matrices of tiles have `stride` rows
// each, and a cache line between them: else the 36 elements of a tile would fall into the same few
// sets of the cache.
struct TileRange {
  int64_t first, count, stride;

  int64_t PointFloats(int64_t channels) const { return stride * channels + 16; }
};

struct WinogradKernels {
  // G w G^T of w [out][in][5][5] as [36][in][out], or [36][out][in] if transposed. `scratch`: 25 *
  // in * out floats.
  void (*transform_weights)(const WinogradShape& shape, bool transposed, const float* w, float* u,
                            float* scratch);
  // B^T x B as v [36][stride][in].
  void (*transform_input)(const WinogradShape& shape, TileRange tiles, const float* x, float* v);
  // y (and index, if pooled) from m [36][stride][out]; bias may be null. Without a pool, relu is
  // not applied.
  void (*transform_output)(const WinogradShape& shape, TileRange tiles, const float* m,
                           const float* bias, float* y, uint8_t* index);
  // A dy A^T as e [36][stride][out]; index null without a pool. Adds dy to bias_gradient [out] if
  // that is not null.
  void (*transform_gradient)(const WinogradShape& shape, TileRange tiles, const float* dy,
                             const uint8_t* index, float* e, float* bias_gradient);
  // Adds B d B^T to dx, for d [36][stride][in].
  void (*add_input_gradient)(const WinogradShape& shape, TileRange tiles, const float* d,
                             float* dx);
  // dw [out][in][5][5] = G^T du G, for du [36][in][out]. `scratch`: 25 * in * out floats.
  void (*transform_weight_gradient)(const WinogradShape& shape, const float* du, float* dw,
                                    float* scratch);
  // c[m, n] = a * b (+ c if accumulate), b [k, n] dense; a [m, k], or stored [k, m] if transposed.
  // m is a multiple of 4, n of 16. Rows of c and, if transposed, columns of a have these leading
  // dimensions.
  void (*multiply)(bool transpose_a, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda,
                   const float* b, float* c, bool accumulate);
};

const WinogradKernels& WinogradKernelsFor(CpuIsa isa);

namespace generic {
extern const WinogradKernels kWinogradKernels;
}
namespace avx2 {
extern const WinogradKernels kWinogradKernels;
}
namespace avx512 {
extern const WinogradKernels kWinogradKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_WINOGRAD_KERNELS_H_
