#define SHOAL_SIMD_NAMESPACE avx512
#include "ml/kernels/cpu/simd/math_kernels.inc"
