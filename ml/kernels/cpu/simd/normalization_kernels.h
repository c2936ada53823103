// The loops of batch normalization, compiled once per instruction set like those of simd_kernels.h.
// They work on runs of floats. In a block of 16 channels, element e belongs to channel e % 16; in a
// plain image, all elements belong to one channel, and the 16 parameters are equal. All parameters
// and sums are arrays of 16; n is the number of floats.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_NORMALIZATION_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_NORMALIZATION_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// A linear function z = a * x + c behind which an activation clamps: y = min(max(z, low), high).
// The slope of the activation is 1 between the bounds and 0 elsewhere.
struct ClampedAffine {
  const float* a;
  const float* c;
  float low, high;
};

struct NormalizationKernels {
  // sums += x - shift, squares += (x - shift)^2.
  void (*add_moments)(const float* x, int64_t n, const float* shift, double* sums, double* squares);
  // sums += dz, products += dz * (x - mean), where dz is dy times the slope of the activation
  // (null: dz is dy).
  void (*add_gradient_sums)(const float* x, const float* dy, int64_t n, const float* mean,
                            const ClampedAffine* activation, double* sums, double* products);
  // y = a * x + c (+ residual if it is not null), clamped.
  void (*affine)(const float* x, const float* residual, int64_t n, const ClampedAffine& affine,
                 float* y);
  // dx = a * dz + b * x + c, with dz as above.
  void (*affine_of_two)(const float* dy, const float* x, int64_t n, const float* a, const float* b,
                        const float* c, const ClampedAffine* activation, float* dx);
  // Layer norm of one row of n elements: y = (x - mean) * inv_std * scale + offset.
  void (*normalize_row)(const float* x, int64_t n, float mean, float inv_std, const float* scale,
                        const float* offset, float* y);
  // dscale += dy * x^, doffset += dy, and dx if it is not null; layer_norm_kernels.cc has the
  // formula.
  void (*normalize_row_gradient)(const float* x, const float* dy, int64_t n, float mean,
                                 float inv_std, const float* scale, float* dscale, float* doffset,
                                 float* dx);
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
