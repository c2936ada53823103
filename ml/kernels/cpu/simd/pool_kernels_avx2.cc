#define SHOAL_SIMD_NAMESPACE avx2
#include "ml/kernels/cpu/simd/pool_kernels.inc"
