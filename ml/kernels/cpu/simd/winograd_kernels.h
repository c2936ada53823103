// The loops of Winograd's convolution F(2x2, 5x5) on images in blocks of 16 channels, compiled once
// per instruction set like those of simd_kernels.h. (A. Lavin, S. Gray, "Fast Algorithms for
// Convolutional Neural Networks", 2015.)
//
// The output is divided into tiles of 2x2, each computed from 6x6 inputs. With the points 0, +-2/3,
// +-3/2 and infinity, whose error is half that of the usual 0, +-1, +-2 and infinity,
//   y = A^T [ (G w G^T) * (B^T x B) ] A
// where * is elementwise, which takes 36 multiplications instead of 100. Because of the sum over
// channels, each of the 36 becomes a matrix product. The gradients are the adjoint maps:
//   dw = G^T [ sum over tiles of (B^T x B) * (A dy A^T) ] G,    dx = B [ (G w G^T) * (A dy A^T) ]
//   B^T.
// Arrays of 36 matrices are [36][rows][columns]; channels are columns, multiples of 16.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_WINOGRAD_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_WINOGRAD_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

inline constexpr int64_t kWinogradPoints = 36;

// The sizes of the convolution (5x5, stride 1) in pixels; index 0 is the height, 1 the width.
struct WinogradShape {
  int64_t in_channels, out_channels;
  int64_t in[2], out[2], pad[2];
  int64_t tiles[2];  // numbers of tiles in one image: out / 2, rounded up
  // True if a 2x2 max pool follows, whose windows are the tiles. y and index then have the size out
  // / 2, and `out` is even.
  bool is_pooled;
  bool relu;  // the pool's output passes a ReLU

  int64_t tiles_of_image() const { return tiles[0] * tiles[1]; }
};

// A range of the batch's tiles, which are numbered image by image and row by row. Each of the 36
// matrices of a range has `stride` rows, and a cache line lies between two matrices: without it,
// the 36 elements of a tile would map to the same few sets of the cache.
struct TileRange {
  int64_t first, count, stride;

  int64_t PointFloats(int64_t channels) const { return stride * channels + 16; }
};

struct WinogradKernels {
  // Computes u = G w G^T for w [out][in][5][5]; u is [36][in][out], or [36][out][in] if transposed.
  // `scratch` has 25 * in * out floats.
  void (*transform_weights)(const WinogradShape& shape, bool transposed, const float* w, float* u,
                            float* scratch);
  // Computes v = B^T x B; v is [36][stride][in].
  void (*transform_input)(const WinogradShape& shape, TileRange tiles, const float* x, float* v);
  // Computes y (and index, if is_pooled) from m [36][stride][out]. `bias` may be null. `relu` has
  // an effect only with a pool.
  void (*transform_output)(const WinogradShape& shape, TileRange tiles, const float* m,
                           const float* bias, float* y, uint8_t* index);
  // Computes e = A dy A^T; e is [36][stride][out]. `index` is null without a pool. Adds dy to
  // bias_gradient [out] if it is not null.
  void (*transform_gradient)(const WinogradShape& shape, TileRange tiles, const float* dy,
                             const uint8_t* index, float* e, float* bias_gradient);
  // Adds B d B^T to dx; d is [36][stride][in].
  void (*add_input_gradient)(const WinogradShape& shape, TileRange tiles, const float* d,
                             float* dx);
  // Computes dw = G^T du G; dw is [out][in][5][5] and du [36][in][out]. `scratch` has 25 * in * out
  // floats.
  void (*transform_weight_gradient)(const WinogradShape& shape, const float* du, float* dw,
                                    float* scratch);
  // Computes c[m, n] = a * b (+ c if accumulate). b is [k, n] and dense; a is [m, k], or stored as
  // [k, m] if transpose_a, with `lda` floats from one stored row to the next. m is a multiple of 4,
  // n of 16.
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
