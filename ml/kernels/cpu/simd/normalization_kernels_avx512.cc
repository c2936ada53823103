#define SHOAL_SIMD_NAMESPACE avx512
#include "ml/kernels/cpu/simd/normalization_kernels.inc"
