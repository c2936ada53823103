#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/math_kernels.inc"
