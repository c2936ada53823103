#define SHOAL_SIMD_NAMESPACE generic
#include "ml/kernels/cpu/simd/simd_kernels.inc"
