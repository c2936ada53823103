#define SHOAL_SIMD_NAMESPACE avx2
#include "ml/kernels/cpu/simd/math_kernels.inc"
