// Pooling of images in blocks of 16 channels, [height][width][16]. The loops are compiled once per
// instruction set, like those of simd_kernels.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_POOL_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_POOL_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// The sizes of one plane and of the window, in pixels; index 0 is the height, 1 the width.
struct PoolPlane {
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
};

inline constexpr uint8_t kNoWinner = 255;

struct PoolKernels {
  // Writes the largest element of each window to y and its position in the window, row * kernel
  // width + column, to index. The first of equal elements wins, and a NaN wins over all numbers.
  // With relu, if no element is positive, y is 0 and index is kNoWinner.
  void (*max_pool)(const PoolPlane& plane, bool relu, const float* x, float* y, uint8_t* index,
                   int64_t planes);
  void (*max_pool_gradient)(const PoolPlane& plane, const uint8_t* index, const float* dy,
                            float* dx, int64_t planes);
  // Writes the mean of each window. With count_padding the padding counts as zeros; otherwise it
  // does not count.
  void (*average_pool)(const PoolPlane& plane, bool count_padding, const float* x, float* y,
                       int64_t planes);
  void (*average_pool_gradient)(const PoolPlane& plane, bool count_padding, const float* dy,
                                float* dx, int64_t planes);
};

const PoolKernels& PoolKernelsFor(CpuIsa isa);

// Returns loops for planes of one channel, [height][width], which do not use vectors.
const PoolKernels& PlainPoolKernels();

namespace generic {
extern const PoolKernels kPoolKernels;
}
namespace avx2 {
extern const PoolKernels kPoolKernels;
}
namespace avx512 {
extern const PoolKernels kPoolKernels;
}
namespace plain {
extern const PoolKernels kPoolKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_POOL_KERNELS_H_
