// Pooling of images in blocks of 16 channels, [height][width][16], compiled once per instruction
// set as simd_kernels.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_POOL_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_POOL_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// Sizes of one plane; index 0 is the height, 1 the width.
struct PoolPlane {
  int64_t in[2], out[2], kernel[2], stride[2], pad[2];
};

inline constexpr uint8_t kNoWinner = 255;

struct PoolKernels {
  // index = row * width + column inside the window of the first largest element, or kNoWinner where
  // relu and no element is positive (y is 0 there). A NaN wins.
  void (*max_pool)(const PoolPlane& plane, bool relu, const float* x, float* y, uint8_t* index,
                   int64_t planes);
  void (*max_pool_gradient)(const PoolPlane& plane, const uint8_t* index, const float* dy,
                            float* dx, int64_t planes);
  // Means over the window's elements, those in the padding counted as zeros or not at all.
  void (*average_pool)(const PoolPlane& plane, bool count_padding, const float* x, float* y,
                       int64_t planes);
  void (*average_pool_gradient)(const PoolPlane& plane, bool count_padding, const float* dy,
                                float* dx, int64_t planes);
};

const PoolKernels& PoolKernelsFor(CpuIsa isa);

// The same for planes of one channel, [height][width], which are not worth vectors.
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
