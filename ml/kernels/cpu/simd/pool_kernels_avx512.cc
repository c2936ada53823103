#define SHOAL_SIMD_NAMESPACE avx512
#include "ml/kernels/cpu/simd/pool_kernels.inc"
