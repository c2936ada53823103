// The loops of batch normalization, compiled once per instruction set as simd_kernels.h. They work
// on runs of floats whose channel repeats every 16: element e belongs to channel e % 16 of a block
// of 16 channels, or all 16 stand for one channel of a plain image. Parameters and sums are arrays
// of 16.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_NORMALIZATION_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_NORMALIZATION_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/cpu_features.h"

namespace shoal::cpu {

struct NormalizationKernels {
  // sums += x - shift, squares += (x - shift)^2.
  void (*add_moments)(const float* x, int64_t n, const float* shift, double* sums, double* squares);
  // sums += dy, products += dy * (x - mean).
  void (*add_gradient_sums)(const float* x, const float* dy, int64_t n, const float* mean,
                            double* sums, double* products);
  // y = a * x + c.
  void (*affine)(const float* x, int64_t n, const float* a, const float* c, float* y);
  // dx = a * dy + b * x + c.
  void (*affine_of_two)(const float* dy, const float* x, int64_t n, const float* a, const float* b,
                        const float* c, float* dx);
};

const NormalizationKernels& NormalizationKernelsFor(CpuIsa isa);

namespace generic {
extern const NormalizationKernels kNormalizationKernels;
}
namespace avx2 {
extern const NormalizationKernels kNormalizationKernels;
}
namespace avx512 {
extern const NormalizationKernels kNormalizationKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_NORMALIZATION_KERNELS_H_
